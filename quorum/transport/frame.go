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

// What the upper bits of a frame's length say, from version 2 on: the length itself needs 27.
const (
	frameAhead uint32 = 1 << 31 // it is none of those that are kept in order, and may have passed some
	framePiece uint32 = 1 << 30 // it has a piece of a large frame
	frameFlags        = frameAhead | framePiece
	// frameGoodbye, from version 3 on: nothing else is in the frame, and nothing comes behind it.
	frameGoodbye uint32 = 1 << 29

	// pieceBytes is what a piece has at most, such that the reader's buffer holds it.
	pieceBytes = readBufferBytes
	// totalBytes is the size of what the first piece begins with: how long kind and body are together.
	totalBytes = 4
	// growFactor is by how much the memory for a large frame grows when what has come fills it.
	growFactor = 4
)

// errFrame is in every error of a frame that is not what a peer of ours sends.
var errFrame = errors.New("damaged frame")

// appendFrame adds a frame to b, whose kind and body encode has the body of. It returns b as it was if the frame is
// larger than frameBytesMax.
func appendFrame(b []byte, kind uint8, encode func([]byte) []byte) (grown []byte, ok bool) {
	return appendFlagged(b, 0, kind, encode)
}

// appendFlagged is appendFrame with flags.
func appendFlagged(b []byte, flags uint32, kind uint8, encode func([]byte) []byte) (grown []byte, ok bool) {
	start := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, kind)
	b = encode(b)
	if len(b)-start-frameHeadBytes > frameBytesMax {
		return b[:start], false
	}
	putHead(b[start:], flags)
	return b, true
}

// putHead fills in the head of frame, which is all of it.
func putHead(frame []byte, flags uint32) {
	content := frame[frameHeadBytes:]
	binary.BigEndian.PutUint32(frame, flags|uint32(len(content))) //nolint:gosec // at most frameBytesMax
	binary.BigEndian.PutUint32(frame[4:], crc32.Checksum(content, castagnoli))
}

// appendKeepAlive adds the frame that says nothing.
func appendKeepAlive(b []byte) []byte { return append(b, 0, 0, 0, 0, 0, 0, 0, 0) }

// appendGoodbye adds the frame that is the last one of a server that stops.
func appendGoodbye(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, frameGoodbye), 0, 0, 0, 0)
}

// largeFrame is a frame that is not copied on its way to the connection. Owned by the writer once it has taken it.
type largeFrame struct {
	head []byte // kind and what the body begins with
	kept []byte // the rest; whoever sent it does not change it any more
	done int    // bytes that were put in pieces
}

// size is how long kind and body are together.
func (f *largeFrame) size() int { return len(f.head) + len(f.kept) }

// appendPieces adds the next pieces, up to count.
func (f *largeFrame) appendPieces(b []byte, count int) []byte {
	for ; count > 0 && f.done < f.size(); count-- {
		start := len(b)
		b = append(b, make([]byte, frameHeadBytes)...)
		if f.done == 0 {
			b = binary.BigEndian.AppendUint32(b, uint32(f.size())) //nolint:gosec // at most frameBytesMax
		}
		b = f.appendSome(b, pieceBytes-(len(b)-start-frameHeadBytes))
		putHead(b[start:], framePiece)
	}
	return b
}

// appendSome adds at most room bytes.
func (f *largeFrame) appendSome(b []byte, room int) []byte {
	for _, part := range [...]struct {
		at    int
		bytes []byte
	}{{0, f.head}, {len(f.head), f.kept}} {
		if at := f.done - part.at; at >= 0 && at < len(part.bytes) {
			some := part.bytes[at:min(len(part.bytes), at+room)]
			b = append(b, some...)
			f.done += len(some)
			room -= len(some)
		}
	}
	return b
}

// frameHead returns the head of the frame in one, for peers that know no pieces.
func (f *largeFrame) frameHead() []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(f.size())) //nolint:gosec // at most frameBytesMax
	sum := crc32.Update(crc32.Checksum(f.head, castagnoli), castagnoli, f.kept)
	return binary.BigEndian.AppendUint32(head, sum)
}

// frameReader takes frames off a stream.
type frameReader struct {
	r       *bufio.Reader
	version uint16 // of the stream
	skip    int    // bytes of the last frame that are still in r
	large   []byte // for frames that do not fit r's buffer
	idle    int    // frames since large was needed
	partial []byte // of the frame whose pieces come
	total   int    // how long it will be; 0: none comes

	ahead bool // the last frame is none of those in order
	owned bool // the last frame's body is whoever has taken it's
}

// newFrameReader returns a reader of r, a stream of that version.
func newFrameReader(r io.Reader, version uint16) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, readBufferBytes), version: version}
}

// next returns the next frame that is no keep-alive, once all of it has come. body is valid until the next call. The
// error is io.EOF if the stream ended between frames, errLeft if the peer has said so.
func (f *frameReader) next() (kind uint8, body []byte, err error) {
	for {
		content, flags, err := f.read()
		switch {
		case err != nil:
			return 0, nil, err
		case flags&framePiece == 0 && flags&frameAhead == 0 && f.total > 0:
			return 0, nil, fmt.Errorf("%w: one that was to come behind the other, of which %d bytes of %d have come",
				errFrame, len(f.partial), f.total)
		case flags&framePiece == 0:
			f.ahead, f.owned = flags&frameAhead != 0, false
			return content[0], content[1:], nil
		}
		whole, err := f.join(content)
		if err != nil {
			return 0, nil, err
		}
		if whole != nil {
			f.ahead, f.owned = false, true
			return whole[0], whole[1:], nil
		}
	}
}

// read returns the content of what comes next and is no keep-alive: kind and body of a frame, or a piece.
func (f *frameReader) read() (content []byte, flags uint32, err error) {
	for {
		if err := f.drop(); err != nil {
			return nil, 0, err
		}
		head, err := f.r.Peek(frameHeadBytes)
		if err != nil {
			if len(head) > 0 || f.total > 0 {
				err = noEOF(err)
			}
			return nil, 0, err
		}
		length, sum := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		f.skip = frameHeadBytes
		if length == 0 && sum == 0 {
			continue
		}
		if f.version >= versionGoodbye && length == frameGoodbye && sum == 0 {
			return nil, 0, errLeft
		}
		if f.version >= versionPieces {
			length, flags = length&^frameFlags, length&frameFlags
		}
		if length == 0 || length > frameBytesMax || flags&framePiece != 0 && int(length) > pieceBytes {
			return nil, 0, fmt.Errorf("%w: length %d, want 1 to %d", errFrame, length, frameBytesMax)
		}
		content, err := f.content(int(length))
		if err != nil {
			return nil, 0, noEOF(err)
		}
		if got := crc32.Checksum(content, castagnoli); got != sum {
			return nil, 0, fmt.Errorf("%w: %d bytes with checksum %08x, want %08x", errFrame, length, got, sum)
		}
		return content, flags, nil
	}
}

// join adds a piece to what has come of a large frame, and returns all of that when it is the last one. Memory is taken
// as bytes come: a length alone costs none.
func (f *frameReader) join(piece []byte) (whole []byte, err error) {
	if f.total == 0 {
		if len(piece) <= totalBytes {
			return nil, fmt.Errorf("%w: a first piece of %d bytes", errFrame, len(piece))
		}
		total := binary.BigEndian.Uint32(piece)
		if total == 0 || total > frameBytesMax {
			return nil, fmt.Errorf("%w: length %d in pieces, want 1 to %d", errFrame, total, frameBytesMax)
		}
		f.total, piece = int(total), piece[totalBytes:]
	}
	need := len(f.partial) + len(piece)
	if need > f.total {
		return nil, fmt.Errorf("%w: pieces of %d bytes, want %d", errFrame, need, f.total)
	}
	if need > cap(f.partial) {
		grown := make([]byte, len(f.partial), min(f.total, max(growBytes, growFactor*need)))
		copy(grown, f.partial)
		f.partial = grown
	}
	f.partial = append(f.partial, piece...)
	if need < f.total {
		return nil, nil
	}
	whole, f.partial, f.total = f.partial, nil, 0
	return whole, nil
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
