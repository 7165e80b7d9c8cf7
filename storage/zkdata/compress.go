package zkdata

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/golang/snappy"
)

// Compression is how a snapshot is compressed (org.apache.zookeeper.server.persistence.SnapStream).
type Compression string

// The compressions, as zookeeper.snapshot.compression.method names them; a file's name ends in them.
const (
	Plain  Compression = ""
	Gzip   Compression = "gz"
	Snappy Compression = "snappy"
)

// snappyHeader begins what snappy-java's SnappyOutputStream writes: a magic, then version and lowest compatible
// version, both 1. Blocks follow, each a length (4 bytes, big-endian) and that many bytes of snappy's block format.
var snappyHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}

// The bounds of a block: what snappy-java writes (32 KiB by default), and the most that is taken.
const (
	snappyBlockBytes    = 32 << 10
	snappyBlockBytesMax = 64 << 20
)

// gzipMagic begins a gzip stream.
var gzipMagic = []byte{0x1f, 0x8b}

// decompress returns the content of r, whose first bytes tell how it is compressed.
func decompress(r io.Reader) (io.Reader, Compression, error) {
	b := bufio.NewReaderSize(r, inputBufferBytes)
	head, err := b.Peek(len(snappyHeader))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, Plain, err
	}
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		z, err := gzip.NewReader(b)
		return z, Gzip, err
	case bytes.HasPrefix(head, snappyHeader[:8]):
		if _, err := b.Discard(len(head)); err != nil {
			return nil, Snappy, err
		}
		if len(head) < len(snappyHeader) || binary.BigEndian.Uint32(head[12:]) > 1 {
			return nil, Snappy, fmt.Errorf("%w: its header is %x", errSnappy, head)
		}
		return &snappyReader{r: b}, Snappy, nil
	}
	return b, Plain, nil
}

// errSnappy means a stream that snappy-java does not write.
var errSnappy = errors.New("the snappy stream is malformed")

// snappyReader reads the blocks of snappy-java.
type snappyReader struct {
	r       io.Reader
	packed  []byte
	content []byte // not read yet
	memory  []byte // of content
}

// Read implements io.Reader.
func (s *snappyReader) Read(p []byte) (int, error) {
	for len(s.content) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.content)
	s.content = s.content[n:]
	return n, nil
}

// next reads a block. A header between two blocks, as of concatenated streams, is passed over, as snappy-java does.
func (s *snappyReader) next() error {
	var head [4]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return err // the end between blocks is io.EOF
	}
	if bytes.Equal(head[:], snappyHeader[:4]) {
		_, err := io.ReadFull(s.r, make([]byte, len(snappyHeader)-len(head)))
		return noEOF(err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > snappyBlockBytesMax {
		return fmt.Errorf("%w: a block says it has %d bytes", errSnappy, n)
	}
	packed, err := readAtMost(s.r, s.packed, int(n))
	if err != nil {
		return noEOF(err)
	}
	s.packed = packed
	size, err := snappy.DecodedLen(packed)
	if err != nil || size > snappyBlockBytesMax || size > 64*len(packed) { // it packs at most 64 bytes into 3
		return fmt.Errorf("%w: a block of %d bytes says it holds %d", errSnappy, n, size)
	}
	if s.memory, err = snappy.Decode(s.memory[:cap(s.memory)], packed); err != nil {
		return fmt.Errorf("%w: %w", errSnappy, err)
	}
	s.content = s.memory
	return nil
}

// readAtMost reads n bytes into b's memory if that is large enough, else into new memory that grows as they come.
func readAtMost(r io.Reader, b []byte, n int) ([]byte, error) {
	if n <= cap(b) || n <= growStepBytes {
		if n > cap(b) {
			b = make([]byte, n)
		}
		b = b[:n]
		_, err := io.ReadFull(r, b)
		return b, err
	}
	var grown bytes.Buffer
	_, err := io.CopyN(&grown, r, int64(n))
	return grown.Bytes(), err
}

// noEOF makes the end of a file inside of a block an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// compress returns a writer to w; Close ends the stream and leaves w open.
func compress(w io.Writer, c Compression) (io.WriteCloser, error) {
	switch c {
	case Plain:
		return plainWriter{w}, nil
	case Gzip:
		return gzip.NewWriter(w), nil
	case Snappy:
		_, err := w.Write(bytes.Clone(snappyHeader)) // a file system may use what it is given
		return &snappyWriter{w: w}, err
	}
	return nil, fmt.Errorf("snapshots are not compressed by %q: use gz, snappy or nothing", c)
}

// plainWriter compresses nothing.
type plainWriter struct{ io.Writer }

// Close implements io.Closer.
func (plainWriter) Close() error { return nil }

// snappyWriter writes the blocks of snappy-java.
type snappyWriter struct {
	w             io.Writer
	block, packed []byte
}

// Write implements io.Writer.
func (s *snappyWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), snappyBlockBytes-len(s.block))
		s.block = append(s.block, rest[:n]...)
		rest = rest[n:]
		if len(s.block) == snappyBlockBytes {
			if err := s.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// flush writes the block.
func (s *snappyWriter) flush() error {
	s.packed = snappy.Encode(s.packed[:cap(s.packed)], s.block)
	s.block = s.block[:0]
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(s.packed)))
	_, err := s.w.Write(append(head[:], s.packed...))
	return err
}

// Close writes what is left.
func (s *snappyWriter) Close() error {
	if len(s.block) == 0 {
		return nil
	}
	return s.flush()
}
