package crashfs

import (
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// held is what MemFS holds of a file. MemFS copies all of it with each sync, and four times with each crash, which was
// most of what a simulated run kept in memory. Here both share the bytes: what follows them goes elsewhere, as their
// slices end there, and who writes over them has a copy first. That needs what MemFS keeps to itself.
type held struct {
	mu           *sync.Mutex
	data, synced *[]byte // guarded by mu
	modTime      *time.Time
}

// heldOf returns that of a file of MemFS; nil if it is a directory, or MemFS does not hold files as it did.
func heldOf(file vfs.File) *held {
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return nil
	}
	h := &held{}
	mu := field(field(reflect.ValueOf(file), "n"), "mu")
	parts := map[string]any{"Mutex": &h.mu, "data": &h.data, "syncedData": &h.synced, "modTime": &h.modTime}
	for name, to := range parts { // any order: each by itself
		of, into := field(mu, name), reflect.ValueOf(to).Elem()
		if !of.IsValid() || !of.CanAddr() || of.Type() != into.Type().Elem() {
			return nil
		}
		into.Set(reflect.NewAt(of.Type(), unsafe.Pointer(of.UnsafeAddr()))) //nolint:gosec // TestSyncOfWhatWasWritten
	}
	return h
}

// field is a field of a structure, or of what a pointer points to; not valid if there is none.
func field(of reflect.Value, name string) reflect.Value {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return of.FieldByName(name)
}

// share returns all of the file, which nobody may write over.
func (h *held) share() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clip(*h.data)
}

// sync makes all of the file be there after a crash.
func (h *held) sync() {
	h.mu.Lock()
	defer h.mu.Unlock()
	*h.synced = slices.Clip(*h.data)
}

// part has the file no longer share its bytes.
func (h *held) part() {
	h.mu.Lock()
	defer h.mu.Unlock()
	*h.data = slices.Clone(*h.data)
}

// shareAll puts what is in a directory of one file system, and below it, into another one, as what was synced. The
// files share their bytes: both are to be written through an FS.
func shareAll(from, to *vfs.MemFS, dir string) error {
	names, err := from.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		name = from.PathJoin(dir, name)
		info, err := from.Stat(name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := to.MkdirAll(name, 0o750); err != nil {
				return err
			}
			err = shareAll(from, to, name)
		} else {
			err = shareFile(from, to, name)
		}
		if err != nil {
			return err
		}
	}
	return syncNames(to, dir)
}

// shareFile does so with a file.
func shareFile(from, to *vfs.MemFS, name string) error {
	file, err := from.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // in memory
	other, err := to.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer other.Close() //nolint:errcheck // in memory
	of, in := heldOf(file), heldOf(other)
	if of == nil || in == nil {
		return errUnknown
	}
	*in.data, *in.modTime = of.share(), *of.modTime
	in.sync()
	return nil
}
