package instance

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/conf"
)

// TestStartWarnsOfOpenDirectories: a dataDir or a dataLogDir that other users may look into is a line in the log, one
// that is closed is none.
func TestStartWarnsOfOpenDirectories(t *testing.T) {
	for _, mode := range []os.FileMode{0o750, 0o751, 0o755} {
		top := t.TempDir()
		data, log := filepath.Join(top, "data"), filepath.Join(top, "log")
		for _, dir := range []string{data, log} {
			if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
				t.Fatal(err)
			}
		}
		config, err := conf.Load(conf.Sources{Text: []byte("clientPort=0\nadmin.enableServer=false\ndataDir=" + data +
			"\ndataLogDir=" + log + "\n")})
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		i := newInstance(config, realWorld(), Options{Logger: slog.New(slog.NewTextHandler(&text, nil))})
		if err := errors.Join(i.openStores(t.Context()), i.Close()); err != nil {
			t.Fatal(err)
		}
		want := 2
		if mode == 0o750 {
			want = 0
		}
		if got := strings.Count(text.String(), "data directory accessible to other users"); got != want {
			t.Errorf("mode %#o: %d warnings, want %d:\n%s", mode, got, want, &text)
		}
	}
}

// TestTheCacheIsAsLargeAsAsked: znodes that fit stay in memory, and no more than that.
func TestTheCacheIsAsLargeAsAsked(t *testing.T) {
	const znodes, size = 2000, 1 << 10
	held := func(lines string) int64 {
		dir := t.TempDir()
		i, stop := start(t, "clientPort=0\nclientPortAddress=127.0.0.1\ndataDir="+dir+"\n"+lines, realWorld())
		defer stop()
		c := connect(t, i.ClientAddr().String())
		defer c.Close()
		for n := 0; n < znodes; n += 100 {
			var ops []any
			for k := range 100 {
				ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("/n%04d", n+k), Data: make([]byte, size),
					Acl: zk.WorldACL(zk.PermAll)})
			}
			if _, err := c.Multi(ops...); err != nil {
				t.Fatal(err)
			}
		}
		return i.machine.Metrics().CacheBytes
	}
	if got := held(""); got < znodes*size {
		t.Errorf("%d bytes are cached by default, of %d znodes of %d", got, znodes, size)
	}
	const asked = 1 << 20
	if got := held("zkd.cacheSize=1048576\n"); got < asked/2 || got > asked {
		t.Errorf("%d bytes are cached, want about %d", got, asked)
	}
}
