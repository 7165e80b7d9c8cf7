package instance

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/conf"
)

// TestAHungDiskHoldsUpNoStop: a server that is told to stop ends, whichever of its stores has a disk that hangs, and
// says so.
func TestAHungDiskHoldsUpNoStop(t *testing.T) {
	for _, store := range []string{"/state/", "/raftlog/", "/"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			stopsOnAHungDisk(t, store)
		})
	}
}

func stopsOnAHungDisk(t *testing.T, store string) {
	var hangs atomic.Bool
	answers := make(chan struct{})
	defer close(answers)
	w := realWorld()
	w.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if hangs.Load() && strings.Contains(op.Path, store) {
			<-answers
		}
		return nil
	}))
	config, err := conf.Load(conf.Sources{ReadFile: w.Files.ReadFile, Text: []byte("dataDir=/zkd-of-no-machine\n" +
		"clientPort=0\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n")})
	if err != nil {
		t.Fatal(err)
	}
	i, err := Open(t.Context(), config, w, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	i.stopWithin, i.closeWithin = time.Second, time.Second
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	connect(t, i.ClientAddr().String())
	hangs.Store(true)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := i.Close(); err == nil || !strings.Contains(err.Error(), "disk does not answer") {
		t.Errorf("closed: %v", err)
	}
}
