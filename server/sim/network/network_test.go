package network

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// delayMost is what a message takes at most.
const delayMost = 5 * time.Millisecond

// world is two hosts, and a connection between processes on them.
type world struct {
	f              *Fabric
	a, b           *Host
	one, other     *Process
	dialed, opened net.Conn
}

// connected returns a world with a connection from a to b.
func connected(t *testing.T) *world {
	t.Helper()
	w := &world{f: New(Options{Random: rand.New(rand.NewPCG(1, 2)), Least: time.Millisecond, Most: delayMost})}
	w.a = w.f.Host("a", netip.MustParseAddr("10.0.0.1"))
	w.b = w.f.Host("b", netip.MustParseAddr("10.0.0.2"))
	w.one, w.other = w.a.Process(), w.b.Process()
	l, err := w.other.Listen(t.Context(), ":7", 0)
	if err != nil {
		t.Fatal(err)
	}
	if w.dialed, err = w.one.Dial(t.Context(), "b:7", false); err != nil {
		t.Fatal(err)
	}
	if w.opened, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return w
}

// write writes, which must not fail.
func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Error(err)
	}
}

// wantText reads a text.
func wantText(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("read %q, %v, want %q", got, err, want)
	}
}

// wantError reads, which must fail.
func wantError(t *testing.T, c net.Conn, want error) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
		t.Errorf("read %d bytes, %v, want %v", n, err, want)
	}
}

func TestBytesArriveLaterInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		began := time.Now()
		for range 100 {
			write(t, w.dialed, "0123456789")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("writing took %v", took)
		}
		for range 100 {
			wantText(t, w.opened, "0123456789")
		}
		if took := time.Since(began); took < time.Millisecond || took > delayMost {
			t.Errorf("they were %v under way", took)
		}
		if err := w.dialed.Close(); err != nil {
			t.Error(err)
		}
		wantError(t, w.opened, io.EOF)
		wantError(t, w.dialed, net.ErrClosed)
	})
}

func TestAWriterWaitsForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		if err := w.dialed.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := w.dialed.Write(make([]byte, 2*windowBytes))
		if n != windowBytes || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes, %v", n, err)
		}
		wantText(t, w.opened, string(make([]byte, windowBytes)))
	})
}

func TestACutHoldsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		w.f.Cut(w.a, w.b)
		write(t, w.dialed, "held")
		write(t, w.opened, "back")
		wantText(t, w.dialed, "back")
		if err := w.opened.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		wantError(t, w.opened, os.ErrDeadlineExceeded)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.one.Dial(ctx, "b:7", false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dialed through a cut: %v", err)
		}
		w.f.Heal(w.a, w.b)
		if err := w.opened.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		wantText(t, w.opened, "held")
	})
}

func TestMuteLetsConnectionsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		w.f.Mute(w.a, w.b)
		c, err := w.one.Dial(t.Context(), "10.0.0.2:7", false)
		if err != nil {
			t.Fatal(err)
		}
		write(t, c, "lost")
		write(t, w.dialed, "held")
		if err := w.opened.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		wantError(t, w.opened, os.ErrDeadlineExceeded)
	})
}

func TestSlowLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		w.f.Slow(w.a, w.b, time.Second, 1000)
		began := time.Now()
		write(t, w.dialed, string(make([]byte, 2000)))
		wantText(t, w.opened, string(make([]byte, 2000)))
		if took := time.Since(began); took < 3*time.Second || took > 3*time.Second+delayMost {
			t.Errorf("2,000 bytes at 1,000 a second took %v", took)
		}
	})
}

// TestALineHasOneRate: what several connections write waits for what was written before, and leaves when it is mended.
func TestALineHasOneRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		l, err := w.other.Listen(t.Context(), ":8", 0)
		if err != nil {
			t.Fatal(err)
		}
		dialed, err := w.one.Dial(t.Context(), "b:8", false)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		w.f.Slow(w.a, w.b, 0, 1000)
		began := time.Now()
		write(t, w.dialed, string(make([]byte, 1000)))
		write(t, w.dialed, string(make([]byte, 1000)))
		write(t, dialed, "second")
		wantText(t, opened, "second")
		if took := time.Since(began); took < 2*time.Second || took > 2*time.Second+2*delayMost {
			t.Errorf("6 bytes behind 2,000 of another connection took %v", took)
		}
		wantText(t, w.opened, string(make([]byte, 2000)))

		write(t, w.dialed, string(make([]byte, 100000)))
		write(t, w.dialed, "last")
		w.f.Heal(w.a, w.b)
		began = time.Now()
		write(t, w.dialed, ", mended")
		wantText(t, w.opened, string(make([]byte, 100000))+"last, mended")
		if took := time.Since(began); took > 2*delayMost {
			t.Errorf("what waited took %v when the line was mended", took)
		}
	})
}

// TestADialBehindASlowLine: what opens a connection waits for what was written before; it ends with its context, and at
// once when the line is mended.
func TestADialBehindASlowLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		w.f.Slow(w.a, w.b, 0, 1000)
		write(t, w.dialed, string(make([]byte, 60000)))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := w.one.Dial(ctx, "b:7", false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a dial behind a minute of others: %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("a dial of three seconds took %v", took)
		}
		time.AfterFunc(4500*time.Millisecond, func() { w.f.Heal(w.a, w.b) })
		if _, err := w.one.Dial(t.Context(), "b:7", false); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("a dial over a line that was mended after 7.5 s took %v", took)
		}
	})
}

// TestOneWayIsSlow: the other way is as ever.
func TestOneWayIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		w.f.Slow(w.b, w.a, time.Second, 0)
		began := time.Now()
		write(t, w.dialed, "there")
		wantText(t, w.opened, "there")
		if took := time.Since(began); took > delayMost {
			t.Errorf("there took %v", took)
		}
		write(t, w.opened, "back")
		wantText(t, w.dialed, "back")
		if took := time.Since(began); took < time.Second {
			t.Errorf("back took %v", took)
		}
	})
}

// TestAKilledProcessIsReset: the system of a process that was killed ends its connections; the process can do nothing.
func TestAKilledProcessIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		w.other.Kill()
		wantError(t, w.dialed, syscall.ECONNRESET)
		wantError(t, w.opened, net.ErrClosed)
		if _, err := w.other.Listen(t.Context(), ":8", 0); !errors.Is(err, errKilled) {
			t.Errorf("a process that was killed listens: %v", err)
		}
		if _, err := w.other.Dial(t.Context(), "a:7", false); !errors.Is(err, errKilled) {
			t.Errorf("a process that was killed dials: %v", err)
		}
		if _, err := w.one.Dial(t.Context(), "b:7", false); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("its port: %v", err)
		}
		if n := w.f.Open(w.a) + w.f.Open(w.b); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
}

// TestWhatIsClosedIsNotOpen: a host has what it has closed open no more, though the process at the other end is paused.
func TestWhatIsClosedIsNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		if err := w.dialed.Close(); err != nil {
			t.Fatal(err)
		}
		if n, m := w.f.Open(w.a), w.f.Open(w.b); n != 0 || m != 1 {
			t.Errorf("%d and %d are open, want 0 and 1", n, m)
		}
	})
}

// TestPowerIsSilent: nobody hears of a machine that loses its power, until it is back and knows nothing of before.
func TestPowerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		w.b.PowerOff()
		write(t, w.dialed, "lost")
		if err := w.dialed.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		wantError(t, w.dialed, os.ErrDeadlineExceeded)
		w.b.PowerOn()
		if _, err := w.dialed.Write([]byte("again")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write to a machine that is back: %v", err)
		}
		if _, err := w.other.Listen(t.Context(), ":7", 0); !errors.Is(err, errKilled) {
			t.Errorf("a process of before listens: %v", err)
		}
		if _, err := w.b.Process().Listen(t.Context(), ":7", 0); err != nil {
			t.Errorf("one of after does not: %v", err)
		}
	})
}

// TestWhoWaitsForAnAnswerHearsOfPower: who has written to a machine without power, and only waits, is told when it is
// back that his connection is unknown; until then not even by what its process does that was there.
func TestWhoWaitsForAnAnswerHearsOfPower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		idle := w.b.Process()
		w.b.PowerOff()
		if err := w.opened.Close(); err != nil {
			t.Error(err)
		}
		write(t, w.dialed, "asked")
		if err := w.dialed.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		wantError(t, w.dialed, os.ErrDeadlineExceeded)
		if err := w.dialed.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		w.b.PowerOn()
		wantError(t, w.dialed, syscall.ECONNRESET)
		if _, err := idle.Listen(t.Context(), ":9", 0); !errors.Is(err, errKilled) {
			t.Errorf("a process of before, without a connection, listens: %v", err)
		}
	})
}

func TestPortsAndNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		for address, want := range map[string]error{ // any order
			":7": syscall.EADDRINUSE, "10.0.0.2:7": syscall.EADDRINUSE, "10.0.0.1:9": syscall.EADDRNOTAVAIL,
		} {
			if _, err := w.other.Listen(t.Context(), address, 0); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", address, err, want)
			}
		}
		if found, err := w.one.LookupNetIP(t.Context(), "b"); err != nil || found[0] != w.b.Addr() {
			t.Errorf("b is at %v, %v", found, err)
		}
		var unknown *net.DNSError
		if _, err := w.one.Dial(t.Context(), "c:7", false); !errors.As(err, &unknown) || !unknown.IsNotFound {
			t.Errorf("a host that is not there: %v", err)
		}
	})
}

func TestResetEndsBothEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t)
		if n := w.f.Reset(w.b, w.a); n != 1 {
			t.Errorf("%d connections were reset", n)
		}
		wantError(t, w.dialed, syscall.ECONNRESET)
		wantError(t, w.opened, syscall.ECONNRESET)
	})
}
