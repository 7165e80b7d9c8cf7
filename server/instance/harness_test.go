package instance

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/server/audit"
)

// deadline bounds every wait of a test.
const deadline = 2 * time.Minute

// realWorld is this machine, with no name server and nobody to ask over HTTP.
func realWorld() World {
	return World{Clock: clock.Real(), FS: vfs.Default, Files: realFiles{}, Network: loopback{},
		Random: cryptorand.Reader, System: noFigures{}}
}

// realFiles are the files of this machine.
type realFiles struct{ conf.DiskFiles }

func (realFiles) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (realFiles) Append(name string) (io.WriteCloser, error) {
	return audit.OpenFile(name, clock.Real())
}

// loopback is the network of this machine.
type loopback struct{}

var errNobody = errors.New("nobody is asked in tests")

func (loopback) Listen(ctx context.Context, address string, _ int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

func (loopback) Dial(ctx context.Context, address string, _ bool) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// LookupNetIP answers at once: what the server looks up has a bound, which a slow machine would reach.
func (loopback) LookupNetIP(_ context.Context, host string) ([]netip.Addr, error) {
	if host != "localhost" {
		return nil, errNobody
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

func (loopback) LookupAddr(context.Context, string) ([]string, error) { return nil, errNobody }

func (loopback) Do(*http.Request) (*http.Response, error) { return nil, errNobody }

// noFigures is a process of which nothing is known.
type noFigures struct{}

func (noFigures) Process() Process           { return Process{} }
func (noFigures) Memory() (free, all uint64) { return 0, 0 }
func (noFigures) OpenFiles() int64           { return -1 }
func (noFigures) MaxOpenFiles() int64        { return -1 }
func (noFigures) MemoryLimit() int64         { return 0 }

// start starts a server without an admin server; stop ends it before the test does.
func start(t *testing.T, cfg string, w World) (i *Instance, stop func()) {
	t.Helper()
	return startAs(t, cfg+"\nadmin.enableServer=false\n", w)
}

// startAs starts a server as cfg has it.
func startAs(t *testing.T, cfg string, w World) (i *Instance, stop func()) {
	t.Helper()
	config, err := conf.Load(conf.Sources{Text: []byte(cfg), ReadFile: w.Files.ReadFile})
	if err != nil {
		t.Fatal(err)
	}
	if i, err = Open(t.Context(), config, w, Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, i.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return i, stop
}

// connect returns a session.
func connect(t *testing.T, addresses ...string) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect(addresses, 20*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	soon(t, "a session", func() bool { // the client waits between its attempts
		_, _, err := c.Exists("/")
		return err == nil
	})
	return c
}

// quiet is a logger that says nothing.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// leavesNone fails the test if goroutines that it has begun are there after its end.
func leavesNone(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { soon(t, "all goroutines end", func() bool { return goleak.Find(before) == nil }) })
}

// soon waits until cond holds.
func soon(t *testing.T, what string, cond func() bool) {
	t.Helper()
	end, again := time.NewTimer(deadline), time.NewTicker(5*time.Millisecond)
	defer end.Stop()
	defer again.Stop()
	for !cond() {
		select {
		case <-again.C:
		case <-end.C:
			t.Fatalf("not in time: %s", what)
		}
	}
}
