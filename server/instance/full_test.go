package instance

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/go-zookeeper/zk"

	"zkd/conf"
	"zkd/storage/disk"
)

// lockedBuffer is a log that goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestAFullDiskIsToldOfOnce: by the first store that cannot write, and by the end of the server, not by all that
// depends on it, nor by the other store on that disk.
func TestAFullDiskIsToldOfOnce(t *testing.T) {
	for _, stores := range [][]string{{"raftlog"}, {"raftlog", "state"}} {
		t.Run(strings.Join(stores, " and "), func(t *testing.T) { aFullDiskIsToldOfOnce(t, stores) })
	}
}

func aFullDiskIsToldOfOnce(t *testing.T, stores []string) {
	var full atomic.Bool
	var met [2]atomic.Bool // who of stores has met it
	w := realWorld()
	w.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		at := slices.IndexFunc(stores, func(store string) bool { return strings.Contains(op.Path, "/"+store+"/") })
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && at >= 0 {
			met[at].Store(true)
			return syscall.ENOSPC
		}
		return nil
	}))
	config, err := conf.Load(conf.Sources{
		Text: []byte("dataDir=/zkd-of-no-machine\nclientPort=0\nclientPortAddress=127.0.0.1\n" +
			"admin.enableServer=false\n"),
		ReadFile: w.Files.ReadFile,
	})
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	i, err := Open(t.Context(), config, w, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- i.Run(t.Context()) }()
	c := connect(t, i.ClientAddr().String())
	full.Store(true)
	_, _ = c.Create("/x", nil, 0, zk.WorldACL(zk.PermAll)) // not answered
	if err := errors.Join(<-ended, i.Close()); !errors.Is(err, disk.ErrDiskFailed) ||
		strings.Count(err.Error(), "no space left") != 1 {
		t.Errorf("the server ends with %v", err)
	}
	for at, store := range stores {
		if !met[at].Load() {
			t.Errorf("the %s has not met the full disk", store)
		}
	}
	said := log.String()
	if n := strings.Count(said, "no space left"); n != 1 || !strings.Contains(said, `msg="store failed: disk error"`) {
		t.Errorf("a full disk is told of %d times:\n%s", n, said)
	}
	if !strings.Contains(said, `msg="server stopped"`) || !strings.Contains(said, "failed=true") {
		t.Errorf("the end is not told of:\n%s", said)
	}
}

// TestAStartOnAFullDiskIsRefusedInOneSentence: the stores that are closed then do not say it again.
func TestAStartOnAFullDiskIsRefusedInOneSentence(t *testing.T) {
	w := realWorld()
	w.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		writes := op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpCreate
		if writes && strings.HasSuffix(op.Path, ".log") {
			return syscall.ENOSPC // not the opening, which writes no such file: what comes after it
		}
		return nil
	}))
	config, err := conf.Load(conf.Sources{
		Text: []byte("dataDir=/zkd-of-no-machine\nclientPort=0\nclientPortAddress=127.0.0.1\n" +
			"admin.enableServer=false\n"),
		ReadFile: w.Files.ReadFile,
	})
	if err != nil {
		t.Fatal(err)
	}
	i, err := Open(t.Context(), config, w, Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		t.Fatal(errors.Join(errors.New("it has started"), i.Close()))
	}
	said := err.Error()
	if n := strings.Count(said, "no space left"); n != 1 || !strings.Contains(said, "start the raft node") {
		t.Errorf("the start fails with %d times the same: %v", n, err)
	}
}
