package instance

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
