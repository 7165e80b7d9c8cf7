package client

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// wall is the time of day without the monotonic clock, as the kernel's stamps are.
func wall() time.Time { return time.Now().Round(0) }

func TestLagIsFromTheArrivalOfWhatWasRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := &Conn{nc: nc, from: newStampedReader(nc, time.Now)}
	defer c.Cut()
	if c.from == nil {
		t.Fatal("the kernel stamps nothing")
	}
	for _, size := range []int{1, firstBufferBytes, 3 * readBytes} {
		frame := binary.BigEndian.AppendUint32(nil, uint32(size))
		frame = append(frame, make([]byte, size)...)
		began := wall()
		if _, err := server.Write(frame[:4]); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = server.Write(frame[4:]) }() // an error shows in what is read
		payload, err := c.ReadFrame()
		if err != nil || len(payload) != size {
			t.Fatalf("a frame of %d bytes is read as %d: %v", size, len(payload), err)
		}
		if lag, most := c.Lag(), wall().Sub(began); lag > most {
			t.Errorf("what was read came %v ago, but was sent within the last %v", lag, most)
		}
	}
	lag, least := time.Duration(0), time.Duration(0)
	for began := time.Now(); lag == 0 && time.Since(began) < time.Minute; { // the kernel begins to stamp a little later
		if _, err := server.Write([]byte{0, 0, 0, 1, 'x'}); err != nil {
			t.Fatal(err)
		}
		there := wall() // over loopback, what is written is with the reader
		if _, err := c.ReadFrame(); err != nil {
			t.Fatal(err)
		}
		least, lag = wall().Sub(there), c.Lag()
	}
	if lag < least {
		t.Errorf("what was read came %v ago, but was there %v ago", lag, least)
	}
	_ = server.Close()
	if _, err := c.ReadFrame(); err != io.EOF { //nolint:errorlint // as a net.Conn returns it
		t.Errorf("at the end: %v", err)
	}
}
