package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/storage/disk"
)

// aheadClock is the clock of another time.
type aheadClock struct {
	clock.Clock
	by time.Duration
}

func (c aheadClock) Now() time.Time                  { return c.Clock.Now().Add(c.by) }
func (c aheadClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// countingNetwork counts the ports that are opened.
type countingNetwork struct {
	loopback
	opened *atomic.Int32
}

func (n countingNetwork) Listen(ctx context.Context, address string, backlog int) (net.Listener, error) {
	n.opened.Add(1)
	return n.loopback.Listen(ctx, address, backlog)
}

// countingRandom counts what is drawn.
type countingRandom struct {
	mu     sync.Mutex
	source *rand.ChaCha8
	drawn  int // bytes
}

func (r *countingRandom) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drawn += len(p)
	return r.source.Read(p)
}

// TestServerInAnotherWorld: a server takes its time, its disk, its network and its randomness from what it is handed,
// keeps its data there, and leaves nothing running.
func TestServerInAnotherWorld(t *testing.T) {
	leavesNone(t)
	const dir = "/zkd-of-no-machine"
	ahead := 1000 * 24 * time.Hour
	var opened atomic.Int32
	w := realWorld()
	w.Clock, w.FS = aheadClock{clock.Real(), ahead}, vfs.NewMem()
	w.Network = countingNetwork{opened: &opened}
	random := &countingRandom{source: rand.NewChaCha8([32]byte{1})}
	w.Random = random
	cfg := fmt.Sprintf("dataDir=%s\nclientPort=0\nclientPortAddress=127.0.0.1\n", dir)

	i, stop := start(t, cfg, w)
	c := connect(t, i.ClientAddr().String())
	if _, err := c.Create("/kept", []byte("value"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	_, stat, err := c.Get("/kept")
	if err != nil {
		t.Fatal(err)
	}
	if made := time.UnixMilli(stat.Ctime); made.Before(time.Now().Add(ahead - time.Hour)) {
		t.Errorf("the znode was made at %v, which is not the time of the clock", made)
	}
	c.Close()
	stop()
	if opened.Load() != 1 || random.drawn == 0 {
		t.Errorf("%d ports opened, %d bytes drawn, of what the server was handed", opened.Load(), random.drawn)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s on the machine's disk: %v", dir, err)
	}

	i, _ = start(t, cfg, w)
	if data, _, err := connect(t, i.ClientAddr().String()).Get("/kept"); err != nil || string(data) != "value" {
		t.Errorf("after a restart: %q, %v", data, err)
	}
}

// TestStages: who asks is told how far the server is, also that one does not come up.
func TestStages(t *testing.T) {
	for cfg, want := range map[string][]Stage{ // any order
		"":                      {Ready, Alive, Stopping},
		"db.autocreate=false\n": {Stopping},
	} {
		w := realWorld()
		w.FS = vfs.NewMem()
		config, err := conf.Load(conf.Sources{Text: []byte("dataDir=/data\nclientPort=0\n" +
			"clientPortAddress=127.0.0.1\nadmin.enableServer=false\n" + cfg)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var told []Stage
		i, err := Open(ctx, config, w, Options{Logger: slog.New(slog.DiscardHandler), Beat: time.Millisecond,
			Notify: func(s Stage) {
				if told = append(told, s); s == Alive {
					cancel()
				}
			}})
		if err == nil {
			err = errors.Join(i.Run(ctx), i.Close())
		}
		if (err != nil) != (len(want) == 1) {
			t.Errorf("%q: %v", cfg, err)
		}
		if got := slices.Compact(told); !slices.Equal(got, want) {
			t.Errorf("%q: told %v, want %v", cfg, got, want)
		}
	}
}

// TestOpenThatFailsLeavesNothing: a member whose peer port, or port for clients, somebody else has is not opened, and
// leaves no port, no lock and no goroutine.
func TestOpenThatFailsLeavesNothing(t *testing.T) {
	leavesNone(t)
	ports := target.FreePorts(t, 3)
	w := realWorld()
	w.FS = vfs.NewMem()
	w.Files = withMyID{realFiles{}}
	config, err := conf.Load(conf.Sources{ReadFile: w.Files.ReadFile, Text: fmt.Appendf(nil, "dataDir=/data\n"+
		"initLimit=10\nsyncLimit=5\nadmin.enableServer=false\nstandaloneEnabled=false\n"+
		"server.1=127.0.0.1:%d:%d;127.0.0.1:%d\n",
		ports[0], ports[1], ports[2])})
	if err != nil {
		t.Fatal(err)
	}
	for _, taken := range []int{ports[0], ports[2]} {
		other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", taken))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), config, w, Options{Logger: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("port %d is taken, and the server is open", taken)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
	i, err := Open(t.Context(), config, w, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Close(); err != nil { // nobody has called Run
		t.Error(err)
	}
}

// stuckNetwork opens no port before who asks for it has given up.
type stuckNetwork struct {
	Network
	asked func()
}

func (n stuckNetwork) Listen(ctx context.Context, _ string, _ int) (net.Listener, error) {
	n.asked()
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestAFailureEndsTheOpening: a store that fails while the server is opened, which may be waiting for just that store,
// ends it.
func TestAFailureEndsTheOpening(t *testing.T) {
	leavesNone(t)
	w := realWorld()
	w.FS = vfs.NewMem()
	config, err := conf.Load(conf.Sources{ReadFile: w.Files.ReadFile,
		Text: []byte("dataDir=/data\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n")})
	if err != nil {
		t.Fatal(err)
	}
	var i *Instance
	failure := fmt.Errorf("%w: the test's", disk.ErrDiskFailed)
	w.Network = stuckNetwork{w.Network, func() { i.fail(failure) }}
	i = newInstance(config, w, Options{Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := i.openWhole(ctx); !errors.Is(err, failure) {
		t.Errorf("the opening ends with %v", err)
	}
}

// withMyID are files of which myid has 1.
type withMyID struct{ Files }

func (f withMyID) ReadFile(name string) ([]byte, error) {
	if filepath.Base(name) == "myid" {
		return []byte("1\n"), nil
	}
	return f.Files.ReadFile(name)
}
