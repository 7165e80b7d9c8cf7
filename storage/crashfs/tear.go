package crashfs

import (
	"bytes"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// Moment is a disk when its power fails: the two file systems that it may come back as, and all between them.
type Moment struct {
	Synced  *vfs.MemFS // without all that was not synced
	Written *vfs.MemFS // with it

	moved map[string]*moved // by their new names
}

// moved is a directory that was renamed.
type moved struct {
	from string     // what it was called
	gone bool       // nothing is called that now
	left *vfs.MemFS // has it with what was synced of it, whatever it is called
	name string     // there
}

// movedDir is where the directories are that were renamed, in a file system of their own.
const movedDir = "/.moved"

// errUnknown says that this package knows another MemFS.
var errUnknown = errors.New("vfs.MemFS holds files otherwise than it did")

// WrittenOf returns what is left if nothing but the process ends now: all that it has written. It is to be used as an
// FS, with whose files those of mem share their bytes. Nothing may change meanwhile, see Still.
func WrittenOf(mem *vfs.MemFS) (*vfs.MemFS, error) {
	written := vfs.NewCrashableMem()
	return written, shareAll(mem, written, "/")
}

// MomentOf returns what the power leaves if it fails now. renames has what directories were called that were renamed,
// by their new names. Nothing may change meanwhile, see Still, and mem is given up.
func MomentOf(mem *vfs.MemFS, renames map[string]string) (*Moment, error) {
	written, err := WrittenOf(mem)
	if err != nil {
		return nil, err
	}
	m := &Moment{Synced: mem.CrashClone(vfs.CrashCloneCfg{}), Written: written, moved: map[string]*moved{}}
	if len(renames) == 0 {
		return m, nil
	}
	// A clone has what was synced of a directory only if its name was. So each gets another one, which is.
	if err := mem.MkdirAll(movedDir, 0o750); err != nil {
		return nil, err
	}
	for to, from := range renames { // order: each for itself
		_, err := mem.Stat(from)
		gone := errors.Is(err, os.ErrNotExist)
		name := movedDir + "/" + strconv.Itoa(len(m.moved))
		if err := mem.Link(to, name); errors.Is(err, os.ErrNotExist) {
			continue // it is gone, or has moved on
		} else if err != nil {
			return nil, err
		}
		m.moved[to] = &moved{from: from, gone: gone, name: name}
	}
	for _, dir := range []string{movedDir, "/"} {
		if err := syncNames(mem, dir); err != nil {
			return nil, err
		}
	}
	left := mem.CrashClone(vfs.CrashCloneCfg{})
	for _, d := range m.moved { // order: each for itself
		d.left = left
	}
	return m, nil
}

// syncNames syncs a directory.
func syncNames(fs *vfs.MemFS, dir string) error {
	handle, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(handle.Sync(), handle.Close())
}

// Tear adds to Synced some of what was not synced, drawn from a seed, and returns how many files were torn. Files whose
// names are in replaced may have taken another one's place, which is done as a whole or not at all, as is the renaming
// of a directory.
func (m *Moment) Tear(seed uint64, replaced map[string]bool) (files int, err error) {
	t := tear{Moment: m, seed: seed, replaced: replaced}
	err = t.dir("/")
	return t.files, err
}

// tear keeps some of what was not synced: files that were made, and of those that were written to a prefix, or any of
// the sectors, with zeros where others are missing. What it keeps of a file is drawn from the seed and the kind of the
// file, not from its number, nor from the files before it: those depend on how far Pebble's goroutines are.
type tear struct {
	*Moment
	seed     uint64
	replaced map[string]bool // names under which a file may have taken another one's place, as a whole
	files    int             // of which a part was kept
}

// dir tears a directory and all below it.
func (t *tear) dir(dir string) error {
	names, err := t.Written.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names { // List sorts
		if err := t.entry(t.Written.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return syncNames(t.Synced, dir)
}

// entry tears what has this name.
func (t *tear) entry(name string) error {
	info, err := t.Written.Stat(name)
	if err != nil {
		return err
	}
	_, err = t.Synced.Stat(name)
	missing := errors.Is(err, os.ErrNotExist)
	random := rand.New(rand.NewPCG(t.seed, kind(name))) //nolint:gosec // a run must repeat
	if missing && random.IntN(2) == 0 {
		return nil
	}
	if !info.IsDir() {
		return t.file(name, missing, random)
	}
	if missing {
		if err := t.come(name); err != nil {
			return err
		}
	}
	return t.dir(name)
}

// come makes a directory whose name was not synced. One that was renamed comes with all that was synced of it, and its
// former name goes.
func (t *tear) come(name string) error {
	d, ok := t.moved[name]
	if !ok {
		return t.Synced.MkdirAll(name, 0o750)
	}
	if _, err := vfs.Clone(d.left, t.Synced, d.name, name, vfs.CloneSync); err != nil {
		return err
	}
	if d.gone {
		return t.Synced.RemoveAll(d.from)
	}
	return nil
}

// kind is a number of the kind of a file.
func kind(name string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, path.Ext(name)) // it does not fail
	return h.Sum64()
}

// file tears a file.
func (t *tear) file(name string, missing bool, random *rand.Rand) error {
	after, err := contents(t.Written, name)
	if err != nil {
		return err
	}
	var before []byte
	if !missing {
		if before, err = contents(t.Synced, name); err != nil {
			return err
		}
	}
	if !missing && bytes.Equal(before, after) {
		return nil
	}
	whole := missing || len(after) < len(before) || t.replaced[path.Base(name)]
	if whole && !missing && random.IntN(2) == 0 {
		return nil
	}
	left := after
	if !whole {
		left = torn(before, after, random)
		t.files++
	}
	out, err := t.Synced.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = out.Write(left)
	return errors.Join(err, out.Sync(), out.Close())
}

// torn returns what is left of a file that had one content when it was synced and got another, at least as long.
func torn(before, after []byte, random *rand.Rand) []byte {
	first := 0 // that differs
	for first < len(before) && before[first] == after[first] {
		first++
	}
	left := bytes.Clone(before)
	if random.IntN(3) == 0 { // a prefix
		end := first + random.IntN(len(after)-first+1)
		if end > len(left) {
			left = append(left, make([]byte, end-len(left))...)
		}
		copy(left[first:end], after[first:end])
		return left
	}
	if random.IntN(2) == 0 { // its size was written
		left = append(left, make([]byte, len(after)-len(before))...)
	}
	for at := first - first%sectorBytes; at < len(after); at += sectorBytes {
		end := min(at+sectorBytes, len(after))
		if random.IntN(2) == 0 {
			continue
		}
		if end > len(left) {
			left = append(left, make([]byte, end-len(left))...)
		}
		copy(left[at:end], after[at:end])
	}
	return left
}

// contents is what a file holds, which nobody may write over.
func contents(fs *vfs.MemFS, name string) ([]byte, error) {
	data, err := fs.UnsafeGetFileDataBuffer(name)
	return slices.Clip(data), err
}
