package state

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
)

// Verified is what a state says of itself that was read from one end to the other, and is whole.
type Verified struct {
	Index, Term uint64   // of the last entry applied
	ClusterID   [16]byte // zero: it belongs to no ensemble yet
}

// Verify reads the state in dir, which must not be in use, from one end to the other, and changes nothing: the format,
// every checksum, the counts, ZooKeeper's digest and the sums. It fails if this program could not serve that state, and
// with disk.ErrDamaged where it is not what it says of itself. Whoever has made the files may be hostile. goOn is
// called now and then, its error ends the reading.
func Verify(fs vfs.FS, dir string, logger *slog.Logger, goOn func() error) (v Verified, err error) {
	defer func() {
		if cause := recover(); cause != nil { // what Pebble takes for impossible
			err = fmt.Errorf("%w: state store %s: pebble has given up: %v", disk.ErrDamaged, dir, cause)
		}
	}()
	r, err := OpenReader(fs, dir, logger)
	if err != nil {
		return Verified{}, err
	}
	v, err = r.verify(goOn)
	err = errors.Join(err, r.Close())
	if gone := fs.Remove(fs.PathJoin(dir, "LOCK")); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("remove the lock of the state in %s: %w", dir, gone))
	}
	return v, err
}

// verify reads everything.
func (r *Reader) verify(goOn func() error) (Verified, error) {
	record, err := r.ensemble()
	if err == nil {
		err = r.refuseDiverged()
	}
	if err != nil {
		return Verified{}, err
	}
	s := scrub{state: Reader{store: r.store, dir: r.dir}, pause: func(int) error { return goOn() }}
	if err := s.run(); err != nil {
		return Verified{}, fmt.Errorf("verify the state in %s: %w", r.dir, err)
	}
	return Verified{Index: r.pos.Index, Term: r.pos.Term, ClusterID: record.ClusterID()}, nil
}
