package socket

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"math/big"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"zkd/compat-tests/hostile"
	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/limits"
)

// secured is a Pair with TLS, in which large frames are taken in turns, and its client, who has a connection without a
// buffer: what it does not read waits.
func secured(t *testing.T) (*Pair, *hostile.Updater) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	var (
		frames limits.FrameLimits
		memory limits.Memory
		p      Pair
		shakes Handshakes
	)
	frames.Init(limits.FrameOptions{FrameBytes: 1 << 20})
	memory.Init(limits.MemoryOptions{Clock: clock.Real(), Each: func(func(*limits.Account)) {}})
	options := Options{Frames: &frames, Large: new(limits.Turns), Figures: &Figures{}, Account: new(limits.Account),
		Share: share()}
	options.Large.Init(1)
	options.Account.Open(&memory, func(int64) {})
	shakes.Init(0, 1)
	near, far := net.Pipe()
	p.Init(near, options)
	began := make(chan error, 1)
	go func() {
		_, err := p.StartTLS(&tls.Config{SessionTicketsDisabled: true, // the client would have to read them
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &shakes)
		began <- err
	}()
	u, err := hostile.NewUpdater(far, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Out.Close(); _ = u.Close() })
	return &p, u
}

// aFrame is a frame with so many bytes.
func aFrame(n int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(n)), bytes.Repeat([]byte{'x'}, n)...)
}

// TestTheReaderWaitsForNoWriter: while somebody waits for a client that takes nothing, what it sends is read, updates
// of its keys with it, and the turn is given back; what was to be written arrives after it, in its order.
func TestTheReaderWaitsForNoWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, u := secured(t)
		const large = 300_000
		p.Out.Append(aFrame(large))
		go p.Out.Flush()
		synctest.Wait()
		if !p.Out.writing {
			t.Fatal("nobody writes")
		}
		came := make(chan int, 2)
		go func() {
			for range 2 {
				b, err := p.In.Frame()
				if err != nil {
					t.Errorf("frame: %v", err)
				}
				came <- len(b)
			}
		}()
		sent := aFrame(large)
		for len(sent) > 0 { // which net.Pipe takes as they are read
			n := min(len(sent), 70_000)
			if _, err := u.Write(sent[:n]); err != nil {
				t.Fatal(err)
			}
			if err := u.Update(); err != nil {
				t.Fatal(err)
			}
			sent = sent[n:]
		}
		if n := <-came; n != large {
			t.Errorf("a frame of %d bytes, want %d", n, large)
		}
		if !p.Out.writing {
			t.Error("the client has taken it")
		}
		if gone := make(chan struct{}); p.In.large.Taken() == 0 || !p.In.large.Begin(gone) {
			t.Error("no turn was taken")
		}
		p.In.large.End()
		p.Out.Append(aFrame(1)) // under the next keys
		got := make([]byte, large+2*jute.FrameHeaderBytes+1)
		if _, err := io.ReadFull(u, got); err != nil || !bytes.Equal(got, append(aFrame(large), aFrame(1)...)) {
			t.Errorf("what was written arrives otherwise: %v", err)
		}
		go func() { _, _ = io.Copy(io.Discard, u) }() // the answers that are left, until the end
		if _, err := u.Write(aFrame(2)); err != nil {
			t.Fatal(err)
		}
		if n := <-came; n != 2 {
			t.Errorf("a frame of %d bytes, want 2", n)
		}
	})
}

// TestAnswersOfTLSAreSentWithoutFrames: a client that only waits for the answer to an update of its keys gets it, and
// one that takes none is not read any more, whoever writes.
func TestAnswersOfTLSAreSentWithoutFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, u := secured(t)
		ended := make(chan error, 1)
		go func() {
			_, err := p.In.Frame()
			ended <- err
		}()
		if err := u.Update(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := p.In.tls.records.gathered(); n != 0 || !p.Out.writing {
			t.Errorf("%d bytes of answers wait, and nobody writes them", n)
		}
		again := make(chan error, 1)
		go func() { again <- u.Update() }()
		synctest.Wait()
		select {
		case err := <-again:
			t.Errorf("the reader goes on before its answer is taken: %v", err)
		default:
		}
		read := make(chan error, 1)
		go func() {
			_, err := u.Read(make([]byte, 1))
			read <- err
		}()
		if err := <-again; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		p.Out.Append(aFrame(0))
		p.Out.Flush()
		if err := <-read; err != nil {
			t.Errorf("after the answers: %v", err)
		}
		p.Out.Close()
		if err := <-ended; err == nil {
			t.Error("the end is not told")
		}
	})
}

// TestAnswersOfTLSAreBounded: who has TLS answer and reads nothing, while another one than the reader waits for it, is
// cut off.
func TestAnswersOfTLSAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, u := secured(t)
		p.Out.Append(aFrame(10))
		flushed := make(chan struct{})
		go func() {
			p.Out.Flush()
			close(flushed)
		}()
		synctest.Wait()
		ended := make(chan error, 1)
		go func() {
			_, err := p.In.Frame()
			ended <- err
		}()
		frame := aFrame(10_000)
		for i := range frame { // crypto/tls itself refuses sixteen without anything between
			if u.Update() != nil {
				break
			}
			if n := p.In.tls.records.gathered(); n > answersMax {
				t.Fatalf("%d bytes of answers wait", n)
			}
			if _, err := u.Write(frame[i : i+1]); err != nil {
				break
			}
		}
		if err := <-ended; err != ErrAnswers { //nolint:errorlint // nothing wraps it
			t.Errorf("the reader ends with %v", err)
		}
		<-flushed
		if !p.Out.Ended() {
			t.Error("the connection has not ended")
		}
	})
}
