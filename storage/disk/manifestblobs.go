package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Tags of the fields of a MANIFEST's records, and of those of a new table (Pebble, manifest.VersionEdit).
const (
	editComparer     = 1
	editLog          = 2
	editNextFile     = 3
	editLastSequence = 4
	editTableGone    = 6
	editPreviousLog  = 9
	editTable        = 103
	editRangeTable   = 104
	editBacking      = 105
	editBackingGone  = 106
	editBlobs        = 107
	editBlobsGone    = 108

	tableEnd     = 1
	tableVirtual = 66
	tableBlobs   = 69

	tableHasPoints = 1 // a bit of a table with range keys
)

// checkBlobsThere fails with ErrDamaged if a blob file that a MANIFEST names is missing. Pebble does not look: it
// panics when it is about to read the first value of such a file (cockroachdb/pebble#5127). Records that cannot be read
// here are left to Pebble, which says what is wrong with them.
func checkBlobsThere(fs vfs.FS, dir string, manifest []byte) error {
	needed, ok := blobsOf(manifest)
	if !ok || len(needed) == 0 {
		return nil
	}
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		delete(needed, name)
	}
	if len(needed) > 0 {
		return fmt.Errorf("%w store: missing: %s", ErrDamaged, strings.Join(slices.Sorted(maps.Keys(needed)), ", "))
	}
	return nil
}

// blobsOf returns the names of the blob files that the store with a MANIFEST has. A last record that is not whole does
// not count, as for Pebble.
func blobsOf(manifest []byte) (names map[string]bool, ok bool) {
	names = map[string]bool{}
	records := record.NewReader(bytes.NewReader(manifest), 0)
	for {
		next, err := records.Next()
		if errors.Is(err, io.EOF) {
			return names, true
		}
		if err != nil {
			return nil, false
		}
		content, err := io.ReadAll(next)
		if record.IsInvalidRecord(err) {
			return names, true
		}
		if err != nil {
			return nil, false
		}
		e := edit{rest: content}
		for len(e.rest) > 0 {
			e.field(names)
		}
		if e.bad {
			return nil, false
		}
	}
}

// edit is what is left to read of a record of a MANIFEST, nothing once a field was bad.
type edit struct {
	rest []byte
	bad  bool
}

// field reads a field. Of those that are not about blob files only the length counts.
func (e *edit) field(blobs map[string]bool) {
	switch tag := e.number(); tag {
	case editComparer:
		e.texts(1)
	case editLog, editNextFile, editLastSequence, editPreviousLog, editBackingGone:
		e.numbers(1)
	case editTableGone, editBacking:
		e.numbers(2)
	case editTable, editRangeTable:
		e.table(tag == editRangeTable)
	case editBlobs:
		e.number() // the id, which stays when the file is rewritten
		blobs[blobName(e.number())] = true
		e.numbers(3)
	case editBlobsGone:
		e.number()
		delete(blobs, blobName(e.number()))
	default:
		e.fail()
	}
}

// table reads a new table.
func (e *edit) table(ranges bool) {
	e.numbers(3) // level, number, size
	bounds := 2
	if ranges && e.byte()&tableHasPoints != 0 {
		bounds = 4
	}
	e.texts(bounds)
	e.numbers(2) // the least and the highest sequence number
	for !e.bad {
		switch e.number() {
		case tableEnd:
			return
		case tableVirtual:
			e.number()
		case tableBlobs:
			e.number() // depth
			for n := e.number(); n > 0 && !e.bad; n-- {
				e.numbers(2)
			}
		default:
			e.texts(1)
		}
	}
}

func (e *edit) numbers(n int) {
	for range n {
		e.number()
	}
}

func (e *edit) number() uint64 {
	n, size := binary.Uvarint(e.rest)
	if size <= 0 {
		e.fail()
		return 0
	}
	e.rest = e.rest[size:]
	return n
}

func (e *edit) texts(n int) {
	for range n {
		length := e.number()
		if length > uint64(len(e.rest)) {
			e.fail()
			return
		}
		e.rest = e.rest[length:]
	}
}

func (e *edit) byte() byte {
	if len(e.rest) == 0 {
		e.fail()
		return 0
	}
	b := e.rest[0]
	e.rest = e.rest[1:]
	return b
}

func (e *edit) fail() { e.rest, e.bad = nil, true }

// blobName is the name of a blob file.
func blobName(number uint64) string { return fmt.Sprintf("%06d.blob", number) }
