package instance

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/conf"
	"zkd/jute"
	"zkd/storage/datadir"
	"zkd/storage/migrate"
	"zkd/storage/raftlog"
)

// Imported data may be older than what the server that it is from has: if that one ran on beside the import, or was
// started again. So an import does not begin while somebody else has one of the ports, nobody gets them meanwhile, and
// until something was written here each start looks whether the files have gone on.

// claimPorts listens at all ports that the server needs, before anything is written into a directory that is not its
// own yet. What it returns ends that.
func claimPorts(ctx context.Context, w *World, c *conf.Config) (release func(), err error) {
	s := &c.Storage
	pending := s.ImportOnStart && datadir.ImportPending(w.FS, s.DataDir, s.DataLogDir)
	if !pending && datadir.IsDataDir(w.FS, s.DataDir) {
		return func() {}, nil
	}
	ports, err := Ports(c, "")
	if err != nil {
		return nil, err
	}
	keys := map[string]string{}
	var addresses []string
	for _, p := range ports {
		if p.Needed && !p.AnyFree() {
			keys[p.Address] = p.Key
			addresses = append(addresses, p.Address)
		}
	}
	return HoldPorts(ctx, w.Network, addresses, func(address string, err error) error {
		return fmt.Errorf("%s: %w", purpose(keys[address]), err)
	})
}

// HoldPorts listens at ports and serves nobody, so that no other process gets them until release is called. If one
// cannot be had, failed says whether that matters; if so, none is held.
func HoldPorts(ctx context.Context, n Network, addresses []string, failed func(address string, err error) error) (
	release func(), err error) {
	var open []net.Listener
	release = func() {
		for _, l := range open {
			_ = l.Close() // nobody was served
		}
	}
	for _, address := range addresses {
		l, err := n.Listen(ctx, address, 0)
		if err == nil {
			open = append(open, l)
		} else if err := failed(address, err); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// errBehind refuses imported data that is older than what it is from.
var errBehind = errors.New("the imported data is behind")

// CheckImported fails if the server that data was imported from has written since, and nothing was written here: the
// state has come to zxid. The files are those in the configured directories, and where they were read from.
func CheckImported(ctx context.Context, c *conf.Config, fs vfs.FS, zxid jute.Zxid, log interface {
	Meta(key string) ([]byte, bool)
}) error {
	note, ok := raftlog.ImportNote(log)
	if !ok || note.Dir == "" || note.Zxid != zxid {
		return nil
	}
	for _, dirs := range [][2]string{{note.Dir, note.LogDir}, {c.Storage.DataDir, c.Storage.DataLogDir}} {
		newer, err := migrate.Newer(ctx, fs, dirs[0], dirs[1], zxid)
		if err != nil {
			return fmt.Errorf("compare the imported data with what it is from: %w; if nothing there is wanted any "+
				"more, move version-2 of %s away", err, dirs[0])
		}
		if newer != 0 {
			return fmt.Errorf("%w: it ends at %#x, and the ZooKeeper server that it is from has written %#x to %s "+
				"since: stop that server, remove raftlog and state of %s, and import again; or move that version-2 "+
				"away to go on without it", errBehind, int64(zxid), int64(newer), dirs[0], c.Storage.DataDir)
		}
	}
	return nil
}
