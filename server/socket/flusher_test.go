package socket

import (
	"bytes"
	"io"
	"net"
	"testing"

	"zkd/quorum/clock"
	"zkd/server/limits"
)

// tcp returns an output to a client on the loopback, and the client's end.
func tcp(t *testing.T) (o *Output, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	far, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var m limits.Memory
	m.Init(limits.MemoryOptions{Clock: clock.Real(), Each: func(func(*limits.Account)) {}})
	var a limits.Account
	a.Open(&m, func(int64) {})
	o = &Output{}
	o.init(near, &Options{Figures: &Figures{}, Share: share(), Account: &a})
	t.Cleanup(func() {
		o.Close()
		_ = far.Close()
	})
	return o, far
}

// pushed pushes frames, of which nothing may be too much.
func pushed(t *testing.T, o *Output, frames ...[]byte) {
	t.Helper()
	want := 0
	for _, b := range frames {
		want += len(b)
	}
	if n, cut, _ := o.Push(Pushed{Frames: frames, Keep: true}, 1<<30); n != want || cut {
		t.Fatalf("%d bytes taken, cut off: %v; want %d", n, cut, want)
	}
}

// TestLongFramesAreSharedInTheirPlace: frames that several have go out in the order in which they were pushed, between
// what is appended and behind a reply that is being made, and are as they were: nothing is appended to their memory.
func TestLongFramesAreSharedInTheirPlace(t *testing.T) {
	long := bytes.Repeat([]byte("long "), sharedBytes/5+1)
	room := append(make([]byte, 0, 2*len(long)), long...) // in which there is room behind them
	both := make([]*Output, 2)
	fars := make([]net.Conn, 2)
	for i := range both {
		both[i], fars[i] = tcp(t)
	}
	for i, o := range both {
		o.Append([]byte("first "))
		pushed(t, o, []byte("short "), room, []byte("behind "))
		pushed(t, o, room)
		o.Reserve(1)
		pushed(t, o, room, []byte("last "))
		reply := *TakeBuffer()
		reply = append(reply, []byte{'A' + byte(i), ' '}...)
		o.Insert(&reply, len(reply))
	}
	if !bytes.Equal(room, long) || !bytes.Equal(room[:cap(room)][len(room):], make([]byte, cap(room)-len(room))) {
		t.Error("what is shared was changed")
	}
	for i, o := range both {
		go func() {
			o.FlushLast()
			o.Close()
		}()
		got, err := io.ReadAll(fars[i])
		want := "first short " + string(long) + "behind " + string(long) + string([]byte{'A' + byte(i), ' '}) +
			string(long) + "last "
		if err != nil || string(got) != want {
			t.Errorf("client %d has %d bytes (%v), want %d: all in order", i, len(got), err, len(want))
		}
	}
}

// TestWhatIsNotToBeKeptIsCopied: the memory of a long frame is its owner's again as soon as it was pushed.
func TestWhatIsNotToBeKeptIsCopied(t *testing.T) {
	o, far := tcp(t)
	frame := bytes.Repeat([]byte{1}, 2*sharedBytes)
	o.Push(Pushed{Frames: [][]byte{frame}}, 1<<30)
	clear(frame)
	go o.Flush()
	got := make([]byte, len(frame))
	if _, err := io.ReadFull(far, got); err != nil || bytes.IndexByte(got, 0) >= 0 {
		t.Errorf("%v: the client has something else than what was pushed", err)
	}
}

// TestMuchIsFlushedInTurns: of a connection that gets much the flusher writes a part at a time, and what it gets
// meanwhile comes behind. When the flusher ends, all is written.
func TestMuchIsFlushedInTurns(t *testing.T) {
	o, far := tcp(t)
	much := bytes.Repeat([]byte{7}, 2*flushTurnBytes+1)
	pushed(t, o, much)
	for turn := range 2 {
		if got := o.tryFlush(); got != flushedPart || o.Unread() != len(much)-(turn+1)*flushTurnBytes {
			t.Fatalf("turn %d: %v, %d bytes are left", turn, got, o.Unread())
		}
	}
	pushed(t, o, []byte{8})
	f := NewFlusher(func(o *Output) { o.Drain() })
	f.Add(o)
	go f.Run()
	f.Stop()
	if o.Unread() != 0 || o.writing || o.queued {
		t.Errorf("%d bytes are left, writing %v, queued %v", o.Unread(), o.writing, o.queued)
	}
	got := make([]byte, len(much)+1)
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got[:len(much)], much) || got[len(much)] != 8 {
		t.Errorf("%v: it is not what was pushed", err)
	}
}

// TestTheFlusherGoesRound: who gets little is served before the rest of those who get much.
func TestTheFlusherGoesRound(t *testing.T) {
	large, _ := tcp(t)
	small, far := tcp(t)
	pushed(t, large, bytes.Repeat([]byte{7}, flushTurnBytes+1))
	f := NewFlusher(func(o *Output) { o.Drain() })
	f.Add(large)
	pushed(t, small, []byte{8})
	f.Add(small)
	f.turn(f.take(nil))
	got := make([]byte, 1)
	if _, err := io.ReadFull(far, got); err != nil || got[0] != 8 || small.Unread() != 0 || large.Unread() != 1 {
		t.Errorf("%v: %d and %d bytes are left", err, small.Unread(), large.Unread())
	}
	if rest := f.take(nil); len(rest) != 1 || rest[0] != large {
		t.Errorf("%d are in line, want the large one", len(rest))
	}
}
