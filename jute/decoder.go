package jute

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"
	"unsafe"
)

// Decoding errors. Each means that the body cannot be read: MarshallingError to the client.
var (
	// ErrShort means that the frame ends inside a field.
	ErrShort = errors.New("record ends inside a field")
	// ErrLength means a negative length, or one that is longer than what is left of the frame.
	ErrLength = errors.New("length of a string, buffer or vector is out of range")
	// ErrNullElement means a null string inside a vector. No client sends one; ZooKeeper answers MarshallingError to
	// it in the one-shot lists of setWatches, but takes it in the two persistent lists, where it can watch nothing.
	ErrNullElement = errors.New("null string inside a vector")
)

// Decoder reads records from one frame's payload. The zero Decoder is empty; Reset gives it bytes. After the first
// error every read returns zero values, so that a record is decoded in a straight line and Err asked once at its end.
type Decoder struct {
	buf []byte
	pos int
	err error
}

// NewDecoder returns a Decoder at the start of payload, which it only reads.
func NewDecoder(payload []byte) Decoder { return Decoder{buf: payload} }

// Reset puts the decoder at the start of payload and forgets any error.
func (d *Decoder) Reset(payload []byte) { *d = Decoder{buf: payload} }

// Err returns the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Remaining returns the bytes that are not read yet, as a view of the frame.
func (d *Decoder) Remaining() []byte { return d.buf[d.pos:] }

// Pos returns the number of bytes read so far.
func (d *Decoder) Pos() int { return d.pos }

// fail keeps the first error and makes every later read return zero.
func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.pos = len(d.buf)
}

// Bool reads one byte; anything but 0 is true.
func (d *Decoder) Bool() bool {
	if len(d.buf)-d.pos < 1 {
		d.fail(ErrShort)
		return false
	}
	v := d.buf[d.pos] != 0
	d.pos++
	return v
}

// Int reads four bytes, big-endian.
func (d *Decoder) Int() int32 {
	if len(d.buf)-d.pos < 4 {
		d.fail(ErrShort)
		return 0
	}
	v := binary.BigEndian.Uint32(d.buf[d.pos:])
	d.pos += 4
	return int32(v)
}

// Long reads eight bytes, big-endian.
func (d *Decoder) Long() int64 {
	if len(d.buf)-d.pos < 8 {
		d.fail(ErrShort)
		return 0
	}
	v := binary.BigEndian.Uint64(d.buf[d.pos:])
	d.pos += 8
	return int64(v)
}

// Buffer reads a length and that many bytes, as a view of the frame; null is nil, an empty buffer is not.
func (d *Decoder) Buffer() []byte {
	n := d.Int()
	if d.err != nil || n == -1 {
		return nil
	}
	if n < 0 || int(n) > len(d.buf)-d.pos {
		d.fail(ErrLength)
		return nil
	}
	v := d.buf[d.pos : d.pos+int(n) : d.pos+int(n)]
	d.pos += int(n)
	return v
}

// Ustring reads a string as a view of the frame and sets bit field of nulls if it is null. Invalid UTF-8 is replaced,
// in a copy, as Java's decoder does it.
func (d *Decoder) Ustring(nulls *Nulls, field uint) string {
	b := d.Buffer()
	if b == nil {
		if d.err == nil {
			*nulls |= 1 << field
		}
		return ""
	}
	return textOf(b)
}

// element reads one string of a vector, where null is an error.
func (d *Decoder) element() string {
	b := d.Buffer()
	if b == nil {
		d.fail(ErrNullElement)
		return ""
	}
	return textOf(b)
}

// count reads a vector's length: -1 for null, 0 for any other negative one (Java's loop ends at once). A count whose
// elements, of at least minBytes each, cannot be in what is left of the frame is an error.
func (d *Decoder) count(minBytes int) int {
	n := int(d.Int())
	switch {
	case d.err != nil || n == -1:
		return -1
	case n < 0:
		return 0
	case n > (len(d.buf)-d.pos)/minBytes:
		d.fail(ErrLength)
		return -1
	}
	return n
}

// Ustrings reads a vector of strings into dst's capacity; null is nil.
func (d *Decoder) Ustrings(dst []string) []string {
	n := d.count(4)
	if n < 0 {
		return nil
	}
	dst = reuse(dst, n)
	for i := range dst {
		dst[i] = d.element()
	}
	return dst
}

// reuse returns a slice of n elements, never nil, in dst's memory if that is large enough.
func reuse[T any](dst []T, n int) []T {
	if cap(dst) < n || dst == nil {
		return make([]T, n)
	}
	return dst[:n]
}

// textOf is b as a string without a copy, unless b is not UTF-8.
func textOf(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if !utf8.Valid(b) {
		return replaceInvalid(b)
	}
	return unsafe.String(&b[0], len(b))
}
