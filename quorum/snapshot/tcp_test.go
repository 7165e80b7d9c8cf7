package snapshot

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zkd/quorum/clock"
	"zkd/quorum/transport"
)

// deaf is a Handler that hears of nothing but the first stream that is up.
type deaf struct {
	once *sync.Once
	up   chan struct{}
}

func (deaf) Receive(uint64, uint8, []byte) {}
func (d deaf) Connected(uint64)            { d.once.Do(func() { close(d.up) }) }
func (deaf) Lost(uint64)                   {}
func (deaf) Left(uint64)                   {}

// overTransport joins the sender and the receiver of a rig by real connections. Who takes a snapshot wants it from the
// process that sends it messages, so their stream is there first.
func overTransport(t *testing.T, r *rig) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	set := func(o transport.Options, d deaf) *transport.Transport {
		o.Dial, o.Clock, o.Rand = (&net.Dialer{}).DialContext, clock.Real(), rand.New(rand.NewPCG(rand.Uint64(), o.ID))
		o.DialTimeout, o.IdleTimeout = testDeadline, testDeadline // a slow machine is no silence
		tr, err := transport.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tr.Close)
		tr.SetPeers(map[uint64]transport.Peer{1: {}, 2: {Addresses: []string{listener.Addr().String()}}})
		tr.Start(d)
		return tr
	}
	ear := func() deaf { return deaf{new(sync.Once), make(chan struct{})} }
	set(transport.Options{ID: 2, Listeners: []net.Listener{listener}, Streams: r.receiver.Receive}, ear())
	sender := ear()
	r.sender.opts.Open = set(transport.Options{ID: 1}, sender).OpenStream
	<-sender.up
}

func TestOverTransport(t *testing.T) {
	r := newRig(t, content(), nil)
	overTransport(t, r)
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.wantHanded(content())
}

// TestRefusalIsSeenOverTCP is about what is under way when the receiver gives up: a reset must not hide why.
func TestRefusalIsSeenOverTCP(t *testing.T) {
	left := int64(3 * testChunk)
	files := map[string]string{"000001.sst": strings.Repeat("x", 2000*testChunk)}
	r := newRig(t, files, func(_ *SenderOptions, o *ReceiverOptions) {
		o.FS = fullFS{o.FS, &left, &os.PathError{Op: "write", Path: "file", Err: syscall.ENOSPC}}
	})
	overTransport(t, r)
	err := r.sender.SendSnapshot(context.Background(), 2, []byte("header"), "checkpoint")
	if err == nil || !strings.Contains(err.Error(), "no room in") {
		t.Error(err)
	}
}
