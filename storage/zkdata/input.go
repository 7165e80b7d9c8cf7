package zkdata

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash"
	"hash/adler32"
	"io"
	"math"
)

// inputBufferBytes is the size of what is read at once; a guess.
const inputBufferBytes = 64 << 10

// growStepBytes bounds what is allocated for a field before its bytes have come.
const growStepBytes = 1 << 20

// errShort means the end of a file inside a field.
var errShort = errors.New("the file ends inside of it")

// input reads a file's content and counts and sums up all that it has read. After the first error every read returns
// zero values.
type input struct {
	r      *bufio.Reader
	sum    hash.Hash32
	offset int64
	err    error
	small  [8]byte
	field  []byte // what buffer has read last
}

// newInput returns an input at the start of r.
func newInput(r io.Reader) *input {
	return &input{r: bufio.NewReaderSize(r, inputBufferBytes), sum: adler32.New()}
}

// fail keeps the first error; the end of the file is errShort.
func (in *input) fail(err error) {
	if in.err != nil {
		return
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errShort
	}
	in.err = err
}

// read fills b.
func (in *input) read(b []byte) {
	if in.err != nil {
		clear(b)
		return
	}
	n, err := io.ReadFull(in.r, b)
	in.offset += int64(n)
	_, _ = in.sum.Write(b[:n]) // a hash does not fail
	if err != nil {
		in.fail(err)
		clear(b)
	}
}

// ended tells whether nothing is left.
func (in *input) ended() bool {
	_, err := in.r.Peek(1)
	return errors.Is(err, io.EOF)
}

func (in *input) int() int32 {
	in.read(in.small[:4])
	return int32(binary.BigEndian.Uint32(in.small[:]))
}

func (in *input) long() int64 {
	in.read(in.small[:8])
	return int64(binary.BigEndian.Uint64(in.small[:]))
}

// errLength means a length that none of ZooKeeper's writers writes.
var errLength = errors.New("a length is negative")

// buffer reads a length and that many bytes, valid until the next call; null is nil.
func (in *input) buffer() []byte {
	n := in.int()
	switch {
	case in.err != nil:
		return nil
	case n == -1:
		return nil
	case n < 0:
		in.fail(errLength)
		return nil
	}
	return in.bytes(int(n))
}

// bytes reads n bytes, valid until the next call, never nil. It allocates as they come.
func (in *input) bytes(n int) []byte {
	if in.field == nil {
		in.field = make([]byte, 0, 1<<10)
	}
	in.field = in.field[:0]
	for len(in.field) < n && in.err == nil {
		step := min(n-len(in.field), growStepBytes)
		have := len(in.field)
		if cap(in.field) < have+step {
			grown := make([]byte, have, min(n, max(have+step, 2*cap(in.field))))
			copy(grown, in.field)
			in.field = grown
		}
		in.field = in.field[:have+step]
		in.read(in.field[have:])
	}
	if in.err != nil {
		return nil
	}
	return in.field
}

// keptFieldBytes is the size above which the memory of a field is given back.
const keptFieldBytes = 4 << 20

// release gives back the memory of a large field.
func (in *input) release() {
	if cap(in.field) > keptFieldBytes {
		in.field = nil
	}
}

// count reads the number of elements of a list, at least 0. Nothing may be allocated for it.
func (in *input) count() int {
	n := in.int()
	if n < 0 {
		in.fail(errLength)
		return 0
	}
	return min(int(n), math.MaxInt32)
}
