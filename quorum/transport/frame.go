package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// Frames; docs/formats/peer.md draws them.
const (
	frameHeadBytes = 8 // length and checksum
	// frameBytesMax bounds kind and body of a frame: more than any entry or batch of messages that is sent. A guess.
	frameBytesMax = 64 << 20
	// readBufferBytes is the reader's buffer; frames up to it are handed on without a copy.
	readBufferBytes = 64 << 10
	// growBytes is how much memory a frame takes before more of it has come.
	growBytes = 1 << 20
	// largeBufferBytes is the size beyond which an unused buffer is given back, after idleUses without need.
	largeBufferBytes = 1 << 20
	idleUses         = 16
)

// errFrame is in every error of a frame that is not what a peer of ours sends.
var errFrame = errors.New("damaged frame")

// appendFrame adds a frame to b, whose kind and body encode has the body of. It returns b as it was if the frame is
// larger than frameBytesMax.
func appendFrame(b []byte, kind uint8, encode func([]byte) []byte) (grown []byte, ok bool) {
	start := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, kind)
	b = encode(b)
	content := b[start+frameHeadBytes:]
	if len(content) > frameBytesMax {
		return b[:start], false
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(content)))
	binary.BigEndian.PutUint32(b[start+4:], crc32.Checksum(content, castagnoli))
	return b, true
}

// appendKeepAlive adds the frame that says nothing.
func appendKeepAlive(b []byte) []byte { return append(b, 0, 0, 0, 0, 0, 0, 0, 0) }

// frameReader takes frames off a stream.
type frameReader struct {
	r     *bufio.Reader
	skip  int    // bytes of the last frame that are still in r
	large []byte // for frames that do not fit r's buffer
	idle  int    // frames since large was needed
}

// newFrameReader returns a reader of r.
func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, readBufferBytes)}
}

// next returns the next frame that is no keep-alive. body is valid until the next call. The error is io.EOF if the
// stream ended between frames.
func (f *frameReader) next() (kind uint8, body []byte, err error) {
	for {
		if err := f.drop(); err != nil {
			return 0, nil, err
		}
		head, err := f.r.Peek(frameHeadBytes)
		if err != nil {
			if len(head) > 0 {
				err = noEOF(err)
			}
			return 0, nil, err
		}
		length, sum := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		f.skip = frameHeadBytes
		if length == 0 && sum == 0 {
			continue
		}
		if length == 0 || length > frameBytesMax {
			return 0, nil, fmt.Errorf("%w: length %d, want 1 to %d", errFrame, length, frameBytesMax)
		}
		content, err := f.content(int(length))
		if err != nil {
			return 0, nil, noEOF(err)
		}
		if got := crc32.Checksum(content, castagnoli); got != sum {
			return 0, nil, fmt.Errorf("%w: %d bytes with checksum %08x, want %08x", errFrame, length, got, sum)
		}
		return content[0], content[1:], nil
	}
}

// drop goes behind the last frame.
func (f *frameReader) drop() error {
	_, err := f.r.Discard(f.skip)
	f.skip = 0
	return err
}

// content returns kind and body of the frame whose head was seen.
func (f *frameReader) content(length int) ([]byte, error) {
	if err := f.drop(); err != nil {
		return nil, err
	}
	if length <= readBufferBytes {
		if f.idle++; f.idle >= idleUses && cap(f.large) > largeBufferBytes {
			f.large = nil
		}
		f.skip = length
		return f.r.Peek(length)
	}
	f.idle = 0
	return f.largeContent(length)
}

// largeContent reads in steps, so that a length alone makes no memory be taken.
func (f *frameReader) largeContent(length int) ([]byte, error) {
	content := f.large[:0]
	for len(content) < length {
		step := min(length-len(content), max(growBytes, len(content)))
		content = slices.Grow(content, step)
		n, err := io.ReadFull(f.r, content[len(content):len(content)+step])
		content = content[:len(content)+n]
		if err != nil {
			return nil, err
		}
	}
	f.large = content
	return content, nil
}
