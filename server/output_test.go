package server

import (
	"io"
	"net"
	"testing"
)

func TestTheLastFlushWaitsForWhoIsWriting(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	var o output
	o.init(near, &metrics{})
	add := func(s string) {
		o.mu.Lock()
		*o.buf = append(o.openLocked(), s...)
		o.mu.Unlock()
	}
	o.buf = takeBuffer()
	add("first ")
	go o.flush() // is stuck until the far end reads
	eventually(t, "a writer", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.writing && o.buf == nil
	})
	o.mu.Lock()
	o.buf = takeBuffer()
	o.mu.Unlock()
	add("second")
	go func() {
		o.flushLast()
		o.close()
	}()
	got, err := io.ReadAll(far)
	if err != nil || string(got) != "first second" {
		t.Errorf("read %q (%v), want all that was appended", got, err)
	}
}
