package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// Reader reads a backup from its beginning to its end, once.
type Reader struct {
	r      io.Reader
	sum    hash.Hash // of all that was read before the block at hand
	before []byte    // sum when the block at hand began
	number uint64    // of the next block
	offset int64     // of the next byte
	info   schema.Summary
	// sizes are of the blocks read, for the number of bytes allocated.
	payload bytes.Buffer
	tally   schema.Tally
	last    []byte // the key of the last znode
}

// Open reads the header of a backup. It fails with ErrUnusable if r holds none, or one of a newer format.
func Open(r io.Reader) (*Reader, error) {
	b := &Reader{r: r, sum: sha256.New()}
	magic := make([]byte, len(fileMagic))
	if _, err := io.ReadFull(r, magic); err != nil && !endsEarly(err) {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	if string(magic) != fileMagic {
		return nil, fmt.Errorf("%w: it begins with %q, a backup with %q: name a file that zkd backup has made",
			ErrUnusable, bytes.TrimRight(magic, "\x00"), fileMagic)
	}
	_, _ = b.sum.Write(magic) // never fails
	b.offset = int64(len(magic))
	kind, payload, err := b.block()
	if err != nil {
		return nil, err
	}
	if kind != kindHeader {
		return nil, b.damaged("the first block is of kind %q, not %q", kind, kindHeader)
	}
	if b.info, err = decodeInfo(payload); err != nil {
		return nil, err
	}
	b.info.Writer, b.info.Config = strings.Clone(b.info.Writer), strings.Clone(b.info.Config)
	return b, nil
}

// Info returns what the backup says about the state in it. It is proven by Verify or Restore, not before.
func (b *Reader) Info() schema.Summary { return b.info }

// Verify reads the backup to its end and checks all of it: the checksum of each block and of the whole, the order of
// the znodes, the checksum of each one's path and data, and that counts and digest are those of the state. It fails
// with ErrUnusable.
func (b *Reader) Verify(progress func(znodes int64)) error {
	return b.Each(func(*schema.Znode, []byte) error {
		if progress != nil && b.tally.Znodes%progressEvery == 0 {
			progress(b.tally.Znodes)
		}
		return nil
	}, func(*schema.SessionInfo) error { return nil })
}

// endsEarly tells whether err says that the input has ended.
func endsEarly(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// damaged words damage found in the block that ends at the offset.
func (b *Reader) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: damaged before byte %d: %s: take another backup", ErrUnusable, b.offset,
		fmt.Sprintf(format, args...))
}

// block reads the next block. The payload is valid until the next call.
func (b *Reader) block() (kind byte, payload []byte, err error) {
	b.before = b.sum.Sum(b.before[:0])
	var head [blockHeaderBytes]byte
	if err := b.read(head[:]); err != nil {
		return 0, nil, err
	}
	kind = head[0]
	n := int64(binary.BigEndian.Uint32(head[1:]))
	if n > payloadBytesMax {
		return 0, nil, b.damaged("a block of %d bytes", n)
	}
	// The buffer grows as bytes come: a wrong length takes no memory.
	b.payload.Reset()
	if got, err := io.CopyN(&b.payload, b.r, n); err != nil {
		b.offset += got
		return 0, nil, b.readFailed(err)
	}
	b.offset += n
	payload = b.payload.Bytes()
	_, _ = b.sum.Write(payload) // never fails
	if got, want := checksum(kind, b.number, payload), binary.BigEndian.Uint64(head[5:]); got != want {
		return 0, nil, b.damaged("block %d has the checksum %#x, its head says %#x", b.number, got, want)
	}
	b.number++
	return kind, payload, nil
}

// read fills p.
func (b *Reader) read(p []byte) error {
	n, err := io.ReadFull(b.r, p)
	b.offset += int64(n)
	if err != nil {
		return b.readFailed(err)
	}
	_, _ = b.sum.Write(p) // never fails
	return nil
}

// readFailed tells a backup that ends too early from a reader that fails.
func (b *Reader) readFailed(err error) error {
	if endsEarly(err) {
		return fmt.Errorf("%w: it ends at byte %d, before its last block: it was cut off, take another backup",
			ErrUnusable, b.offset)
	}
	return fmt.Errorf("read the backup: %w", err)
}

// Each calls znode with each znode, its data loaded, and its header's value, and session with each session, and checks
// what Verify says. Both are valid during the call.
func (b *Reader) Each(
	znode func(n *schema.Znode, header []byte) error, session func(*schema.SessionInfo) error,
) error {
	order := byte(kindZnodes)
	for {
		kind, payload, err := b.block()
		if err != nil {
			return err
		}
		if kind < order {
			return b.damaged("a block of kind %q behind one of kind %q", kind, order)
		}
		order = kind
		switch kind {
		case kindZnodes:
			err = b.znodes(payload, znode)
		case kindSessions:
			err = b.sessions(payload, session)
		case kindEnd:
			return b.finish(payload)
		default:
			return b.damaged("a block of unknown kind %q", kind)
		}
		if err != nil {
			return err
		}
	}
}

// znodes reads a block of znodes.
func (b *Reader) znodes(payload []byte, f func(n *schema.Znode, header []byte) error) error {
	var key []byte
	for len(payload) > 0 {
		path, header, data, rest, ok := cutZnode(payload)
		if !ok || path == "" || path[0] != '/' {
			return b.damaged("a znode that cannot be read")
		}
		payload = rest
		n, err := schema.DecodeHeader(strings.Clone(path), entry.ViewBytes(header))
		if err != nil {
			return b.damaged("%v", err)
		}
		if !n.Inline() {
			n.Data, n.DataLoaded = entry.ViewBytes(data), true
		} else if data != "" {
			return b.damaged("data of %q is there twice", n.Path)
		}
		if err := n.CheckData(); err != nil {
			return b.damaged("%v", err)
		}
		if key = schema.AppendNodeKey(key[:0], schema.KindNode, n.Path); bytes.Compare(key, b.last) <= 0 {
			return b.damaged("znode %q is not in its place", n.Path)
		}
		b.last = append(b.last[:0], key...)
		b.tally.Add(n)
		if err := f(n, entry.ViewBytes(header)); err != nil {
			return err
		}
	}
	return nil
}

// sessions reads a block of sessions.
func (b *Reader) sessions(payload []byte, f func(*schema.SessionInfo) error) error {
	const size = 8 + schema.SessionValueBytes
	for ; len(payload) > 0; payload = payload[size:] {
		if len(payload) < size {
			return b.damaged("a session that cannot be read")
		}
		id := jute.SessionID(binary.BigEndian.Uint64(payload))
		s, err := schema.DecodeSession(schema.AppendSessionKey(nil, id), payload[8:size])
		if err != nil {
			return b.damaged("%v", err)
		}
		b.tally.Sessions++
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

// finish checks the last block, and that nothing comes behind it.
func (b *Reader) finish(payload []byte) error {
	if len(payload) != endBytes {
		return b.damaged("the last block has %d bytes", len(payload))
	}
	znodes, sessions := binary.BigEndian.Uint64(payload), binary.BigEndian.Uint64(payload[8:])
	if int64(znodes) != b.tally.Znodes || int64(sessions) != b.tally.Sessions {
		return b.damaged("%d znodes and %d sessions are there, %d and %d were written", b.tally.Znodes,
			b.tally.Sessions, znodes, sessions)
	}
	if !bytes.Equal(payload[16:], b.before) {
		return b.damaged("its SHA-256 is %x, its end says %x", b.before, payload[16:])
	}
	if err := b.tally.Compare(&b.info); err != nil {
		return b.damaged("%v", err)
	}
	var one [1]byte
	if n, err := io.ReadFull(b.r, one[:]); n > 0 || !endsEarly(err) {
		return b.damaged("something follows its end")
	}
	return nil
}
