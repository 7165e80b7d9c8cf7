package peers

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"zkd/conf"
	"zkd/quorum"
)

// initializeName is the file in dataDir with which an operator says that a server without data may begin with an empty
// tree, where db.autocreate=false says that it may not
// (org.apache.zookeeper.server.persistence.FileTxnSnapLog.restore).
const initializeName = "initialize"

// errEmpty refuses to serve an empty tree that may stand for one that was lost.
var errEmpty = errors.New("there is no data, and db.autocreate is false")

// initializePath is where the file is looked for.
func initializePath(c *conf.Config) string { return filepath.Join(c.Storage.DataDir, initializeName) }

// MayBeginEmpty reports whether a server without data may found an ensemble, or be one alone. A member that may not
// can join an ensemble that runs; a server alone has nothing to join.
func MayBeginEmpty(c *conf.Config, files Files) (bool, error) {
	if c.Storage.AutocreateDB {
		return true, nil
	}
	path := initializePath(c)
	_, err := files.Stat(path)
	switch {
	case err == nil:
		return true, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("look for the file that lets a server begin empty: %w", err)
	case !c.Ensemble.Distributed:
		return false, fmt.Errorf("%w: mount the disk with the data or restore a backup; to begin with an empty tree "+
			"make the file %s", errEmpty, path)
	}
	return false, nil
}

// IsEmpty reports whether a raft log is that of a server that has never had data.
func IsEmpty(log interface {
	quorum.LogReader
	LastIndex() uint64
}) bool {
	return log.LastIndex() == 0 && !quorum.Imported(log)
}

// Begun removes the file with which the operator has let an empty server begin: it counts once.
func Begun(c *conf.Config, files Files, logger *slog.Logger) error {
	err := files.Remove(initializePath(c))
	if err == nil {
		logger.Info("started with an empty tree: initialize file found", slog.String("path", initializePath(c)))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the file that lets a server begin empty, once: %w", err)
	}
	return nil
}
