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
	a.logs("stream from peer broke", "damaged frame: 4 bytes with checksum")
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
		if _, _, err := newFrameReader(bytes.NewReader(tc.bytes)).next(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestLengthAloneTakesNoMemory(t *testing.T) {
	claim := append(binary.BigEndian.AppendUint32(nil, frameBytesMax), 0, 0, 0, 0)
	r := newFrameReader(bytes.NewReader(append(claim, make([]byte, 2*readBufferBytes)...)))
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
	r := newFrameReader(bytes.NewReader(b))
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

func FuzzFrames(f *testing.F) {
	b, _ := appendFrame(nil, 1, body("abc"))
	f.Add(appendKeepAlive(b))
	f.Add([]byte{4, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newFrameReader(bytes.NewReader(b))
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
