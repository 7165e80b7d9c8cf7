package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestDamagedFrameEndsTheStream(t *testing.T) {
	a := newMember(t, 1, nil)
	a.SetPeers(map[uint64]Peer{2: {}})
	a.Start(a.heard)
	answered, conn := call(t, a, good())
	if answered.code != Accepted {
		t.Fatalf("answer %+v", answered)
	}
	one, _ := appendFrame(nil, 1, body("one"))
	two, _ := appendFrame(nil, 1, body("two"))
	two[len(two)-1] ^= 1
	three, _ := appendFrame(nil, 1, body("three"))
	if _, err := conn.Write(append(append(one, two...), three...)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("the stream is open after a damaged frame")
	}
	a.logs("peer disconnected", "damaged frame: 4 bytes with checksum")
	if a.heard.count() != 1 || a.heard.frames[0].body != "one" {
		t.Errorf("handed on %+v", a.heard.frames)
	}
}

func TestFrameErrors(t *testing.T) {
	whole, _ := appendFrame(nil, 1, body("abc"))
	long, _ := appendFrame(nil, 1, body(strings.Repeat("x", 2*readBufferBytes)))
	huge := binary.BigEndian.AppendUint32(nil, frameBytesMax+1)
	for name, tc := range map[string]struct { // order: each case is read alone
		bytes []byte
		want  error
	}{
		"nothing":               {nil, io.EOF},
		"a keep-alive":          {appendKeepAlive(nil), io.EOF},
		"half a head":           {whole[:4], io.ErrUnexpectedEOF},
		"half a frame":          {whole[:len(whole)-1], io.ErrUnexpectedEOF},
		"half a long frame":     {long[:len(long)-1], io.ErrUnexpectedEOF},
		"a length beyond":       {append(huge, 0, 0, 0, 0), errFrame},
		"an empty one, checked": {[]byte{0, 0, 0, 0, 0, 0, 0, 1}, errFrame},
		"a wrong checksum":      {append(bytes.Clone(whole[:len(whole)-1]), 'x'), errFrame},
	} {
		if _, _, err := newFrameReader(bytes.NewReader(tc.bytes), versionOldest).next(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestLengthAloneTakesNoMemory(t *testing.T) {
	claim := append(binary.BigEndian.AppendUint32(nil, frameBytesMax), 0, 0, 0, 0)
	r := newFrameReader(bytes.NewReader(append(claim, make([]byte, 2*readBufferBytes)...)), versionOldest)
	if _, _, err := r.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	content, err := r.largeContent(frameBytesMax)
	if err == nil || cap(content) > 2*growBytes || cap(r.large) > 2*growBytes {
		t.Errorf("took %d and %d bytes, %v", cap(content), cap(r.large), err)
	}
}

func TestLargeBuffersAreGivenBack(t *testing.T) {
	var b []byte
	b, _ = appendFrame(b, 1, body(strings.Repeat("x", 4*largeBufferBytes)))
	for range idleUses {
		b, _ = appendFrame(b, 1, body("x"))
	}
	r := newFrameReader(bytes.NewReader(b), versionOldest)
	for i := range idleUses + 1 {
		if _, _, err := r.next(); err != nil {
			t.Fatal(err)
		}
		if kept := cap(r.large) > largeBufferBytes; kept != (i < idleUses) {
			t.Errorf("after %d small frames the large buffer is kept: %v", i, kept)
		}
	}
	buf, idle := make([]byte, 10, 2*largeBufferBytes), 0
	for i := range idleUses {
		buf, idle = giveBack(buf, idle)
		if kept := buf != nil; kept != (i < idleUses-1) {
			t.Errorf("after %d small writes the large buffer is kept: %v", i+1, kept)
		}
	}
}

// pieces is a large frame as it goes onto a stream of a version that knows pieces.
func pieces(kind uint8, text string) []byte {
	large := largeFrame{head: []byte{kind}, kept: []byte(text)}
	b := large.appendPieces(nil, len(text))
	return b
}

func TestPieceErrors(t *testing.T) {
	long := strings.Repeat("x", 2*pieceBytes)
	whole := pieces(1, long)
	first := whole[:frameHeadBytes+pieceBytes]
	ordered, _ := appendFrame(nil, 1, body("x"))
	piece := func(total uint32, text string) []byte {
		b := append(make([]byte, frameHeadBytes), binary.BigEndian.AppendUint32(nil, total)...)
		b = append(b, text...)
		putHead(b, framePiece)
		return b
	}
	beyond, _ := appendFlagged(nil, framePiece, 1, body(long))
	for name, tc := range map[string]struct { // order: each case is read alone
		bytes   []byte
		version uint16
		want    error
	}{
		"all of it":                    {whole, versionPieces, io.EOF},
		"a part of it":                 {first, versionPieces, io.ErrUnexpectedEOF},
		"half a piece":                 {first[:100], versionPieces, io.ErrUnexpectedEOF},
		"in a version without pieces":  {whole, versionOldest, errFrame},
		"one that should wait between": {append(bytes.Clone(first), ordered...), versionPieces, errFrame},
		"a piece too many":             {append(bytes.Clone(first), whole...), versionPieces, errFrame},
		"a piece beyond its bound":     {beyond, versionPieces, errFrame},
		"no total":                     {piece(0, "")[:frameHeadBytes], versionPieces, io.ErrUnexpectedEOF},
		"nothing behind the total":     {piece(7, ""), versionPieces, errFrame},
		"a total of nothing":           {piece(0, "x"), versionPieces, errFrame},
		"a total beyond":               {piece(frameBytesMax+1, "x"), versionPieces, errFrame},
		"more than the total":          {piece(3, "four"), versionPieces, errFrame},
		"the end between":              {appendGoodbye(bytes.Clone(first)), versionGoodbye, errLeft},
		"the end in an older version":  {appendGoodbye(nil), versionPieces, errFrame},
	} {
		r, err := newFrameReader(bytes.NewReader(tc.bytes), tc.version), error(nil)
		for err == nil {
			_, _, err = r.next()
		}
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestTotalAloneTakesNoMemory(t *testing.T) {
	b := append(make([]byte, frameHeadBytes), binary.BigEndian.AppendUint32(nil, frameBytesMax)...)
	b = append(b, "begins"...)
	putHead(b, framePiece)
	r := newFrameReader(bytes.NewReader(b), versionPieces)
	if _, _, err := r.next(); !errors.Is(err, io.ErrUnexpectedEOF) || cap(r.partial) > growBytes {
		t.Errorf("took %d bytes, %v", cap(r.partial), err)
	}
}

func FuzzFrames(f *testing.F) {
	b, _ := appendFrame(nil, 1, body("abc"))
	f.Add(appendKeepAlive(b))
	f.Add([]byte{4, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newFrameReader(bytes.NewReader(b), versionOldest)
		rest := b
		for {
			kind, content, err := r.next()
			if err != nil {
				break
			}
			want, _ := appendFrame(nil, kind, body(string(content)))
			for bytes.HasPrefix(rest, appendKeepAlive(nil)) {
				rest = rest[frameHeadBytes:]
			}
			if !bytes.HasPrefix(rest, want) {
				t.Fatalf("%x was read as %x", rest, want)
			}
			rest = rest[len(want):]
		}
		if cap(r.large) > len(b)+2*growBytes {
			t.Errorf("%d bytes taken for %d", cap(r.large), len(b))
		}
	})
}

// FuzzPieces reads what may be frames of a stream with pieces: what is handed on was there, and no memory is taken for
// what was not.
func FuzzPieces(f *testing.F) {
	ahead, _ := appendFlagged(nil, frameAhead, 2, body("abc"))
	f.Add(append(ahead, pieces(1, "large")...))
	f.Add(pieces(1, strings.Repeat("x", pieceBytes)))
	f.Add(appendGoodbye(pieces(1, "large")))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newFrameReader(bytes.NewReader(b), versionNewest)
		got := 0
		for {
			_, content, err := r.next()
			if err != nil {
				break
			}
			got += 1 + len(content)
		}
		if got > len(b) || cap(r.partial) > growFactor*len(b)+growBytes {
			t.Errorf("%d bytes are handed on and %d taken for %d", got, cap(r.partial), len(b))
		}
	})
}
