package crashfs

import (
	"bytes"
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
	at           *int // where this handle writes next
}

// heldOf returns that of a file of MemFS; nil if it is a directory, or MemFS does not hold files as it did.
func heldOf(file vfs.File) *held {
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return nil
	}
	h, node := &held{}, field(field(reflect.ValueOf(file), "n"), "mu")
	for _, part := range []struct {
		of reflect.Value
		to any
	}{
		{field(node, "Mutex"), &h.mu}, {field(node, "data"), &h.data}, {field(node, "syncedData"), &h.synced},
		{field(node, "modTime"), &h.modTime}, {field(reflect.ValueOf(file), "pos"), &h.at},
	} {
		of, into := part.of, reflect.ValueOf(part.to).Elem()
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

// parted is a file that is written over, and so shares its bytes with nobody.
type parted struct {
	synced  bool     // likewise what was synced of it
	changed [][2]int // from where to where it was written over since the last sync
}

// part has the file no longer share its bytes.
func (h *held) part() {
	h.mu.Lock()
	defer h.mu.Unlock()
	*h.data = sparse(*h.data, len(*h.data))
}

// grow has room in memory for n more bytes where the handle writes next, at the end of the file: more than MemFS would
// make, which copies a large file five times until it is written.
func (h *held) grow(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if need := *h.at + n; need > cap(*h.data) {
		*h.data = sparse(*h.data, max(need, 2*cap(*h.data)))
	}
}

// extend appends n zeros, for which there is room, where the handle writes next, if that is the end of the file; it
// tells whether it is. What is behind the bytes of a file was never written.
func (h *held) extend(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if *h.at != len(*h.data) {
		return false
	}
	*h.data = (*h.data)[:*h.at+n]
	*h.at += n
	return true
}

// zeros are what a piece of a file is compared with.
var zeros [4 << 10]byte

// isZeros tells whether all of p is zeros.
func isZeros(p []byte) bool {
	for len(p) > 0 {
		n := min(len(p), len(zeros))
		if !bytes.Equal(p[:n], zeros[:n]) {
			return false
		}
		p = p[n:]
	}
	return true
}

// sparse returns a copy of p that has room for so many bytes. Pages of zeros take no memory in a large one: it is made
// of zeros, and nobody touches them. Write-ahead logs are made ahead as zeros, and mostly stay that.
func sparse(p []byte, room int) []byte {
	c := make([]byte, len(p), room)
	for from := 0; from < len(p); from += len(zeros) {
		if piece := p[from:min(len(p), from+len(zeros))]; !isZeros(piece) {
			copy(c[from:], piece)
		}
	}
	return c
}

// sync makes all of the file be there after a crash. Of one that is written over, p, it copies what was.
func (h *held) sync(p *parted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p == nil:
		*h.synced = slices.Clip(*h.data)
		return
	case !p.synced:
		*h.synced, p.synced = sparse(*h.data, len(*h.data)), true
	default:
		for _, c := range p.changed {
			if c[0] < len(*h.synced) {
				copy((*h.synced)[c[0]:], (*h.data)[c[0]:min(c[1], len(*h.data))])
			}
		}
		*h.synced = append(*h.synced, (*h.data)[len(*h.synced):]...)
	}
	p.changed = p.changed[:0]
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
	in.sync(nil)
	return nil
}
