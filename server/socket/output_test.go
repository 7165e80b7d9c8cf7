package socket

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"

	"zkd/compat-tests/leak"
	"zkd/quorum/clock"
	"zkd/server/limits"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func TestTheLastFlushWaitsForWhoIsWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _ = far.Close() }()
		var o Output
		o.init(near, &Options{Figures: &Figures{}, Share: share()})
		o.Append([]byte("first "))
		go o.Flush() // is stuck until the far end reads
		synctest.Wait()
		if !o.writing || o.buf != nil {
			t.Fatal("nobody writes")
		}
		o.Append([]byte("second"))
		go func() {
			o.FlushLast()
			o.Close()
		}()
		got, err := io.ReadAll(far)
		if err != nil || string(got) != "first second" {
			t.Errorf("read %q (%v), want all that was appended", got, err)
		}
	})
}

// TestPartsAreInTheirPlace: a reply in parts goes behind what was appended before room was left for it, which somebody
// is writing, and before what was appended since. A client that goes away leaves nothing undone.
func TestPartsAreInTheirPlace(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer func() { _ = far.Close() }()
			var o Output
			o.init(near, &Options{Figures: &Figures{}, Share: share()})
			o.Append([]byte("before "))
			go o.Flush() // is stuck until the far end reads
			synctest.Wait()
			o.Append([]byte("also "))
			o.Reserve(1 << 20)
			o.Append([]byte("behind"))
			go func() {
				o.InsertParts(net.Buffers{[]byte("a "), []byte("list "), []byte("in parts ")}, 1)
				o.FlushLast()
				o.Close()
			}()
			synctest.Wait()
			if leaves {
				_ = far.Close()
			} else if got, err := io.ReadAll(far); err != nil || string(got) != "before also a list in parts behind" {
				t.Errorf("read %q (%v)", got, err)
			}
			synctest.Wait()
			o.mu.Lock()
			defer o.mu.Unlock()
			if !o.closed || o.writing || o.reserved || o.charged != 0 || o.sending != 0 {
				t.Errorf("closed %t, writing %t, reserved %t, charged %d, sending %d", o.closed, o.writing, o.reserved,
					o.charged, o.sending)
			}
		})
	}
}

func TestReadersGoOnByBatches(t *testing.T) {
	var u limits.InFlight
	u.Init(16, limits.RequestThrottle{}, clock.Real())
	o := Output{share: share()}
	for i, s := range []struct {
		all  int64
		own  int
		full bool
	}{
		{16, 16, false},
		{17, 17, true},
		{16, 16, true}, // there is room, but not yet for a batch
		{13, 13, true},
		{12, 12, false},
		{16, 16, false},
		{17, 17, true},
		{17, 2, true},
		{17, 1, false}, // the others have it all
		{17, 2, true},
		{17, 0, false},
	} {
		for u.Count() < s.all {
			u.Begin()
		}
		for u.Count() > s.all {
			u.End()
		}
		o.outstanding = s.own
		if got := o.fullLocked(&u); got != s.full {
			t.Errorf("step %d, %+v: %v", i, s, got)
		}
	}
}

// TestAShortAnswerCountsAsSuch: whose short answer is in a buffer that a large one was in before costs nothing; a large
// one counts with its buffer.
func TestAShortAnswerCountsAsSuch(t *testing.T) {
	var m limits.Memory
	m.Init(limits.MemoryOptions{Clock: clock.Real(), Each: func(func(*limits.Account)) {}})
	var a limits.Account
	a.Open(&m, func(int64) {})
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	var o Output
	o.init(near, &Options{Figures: &Figures{}, Account: &a, Share: share()})
	buffer := make([]byte, 0, maxPooledBytes)
	o.buf = &buffer
	o.Append(make([]byte, 100))
	if held := a.Held(); held != 0 {
		t.Errorf("100 bytes count as %d", held)
	}
	o.Append(make([]byte, limits.MemoryStepBytes))
	if held := a.Held(); held != maxPooledBytes {
		t.Errorf("what fills a step of a buffer counts as %d, want all of the buffer, %d", held, maxPooledBytes)
	}
	o.Close()
}

// share is that of an address with nobody beside it.
func share() *limits.Share {
	var s limits.Shares
	s.Init(outputBufferBytes)
	return s.Enter(netip.Addr{})
}
