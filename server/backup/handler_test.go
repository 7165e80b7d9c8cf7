package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/quorum/clock"
	"zkd/server/auth"
	"zkd/storage"
)

// superDigest is super:secret.
const superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="

// newTestServer serves backups of source, and returns the file system with the scratch directory.
func newTestServer(t *testing.T, source Source) (*httptest.Server, vfs.FS) {
	t.Helper()
	registry, err := auth.New(auth.Options{SuperDigest: superDigest})
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	if err := fs.MkdirAll("scratch/left-over", 0o755); err != nil {
		t.Fatal(err)
	}
	h, err := New(Options{Source: source, Registry: registry, ScratchDir: "scratch", FS: fs, Clock: clock.Real(),
		Logger: slog.New(slog.DiscardHandler), Writer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Stat("scratch/left-over"); err == nil {
		t.Error("what an earlier process has left is still there")
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, fs
}

// ask asks for a backup.
func ask(t *testing.T, s *httptest.Server, method, authorization string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	response, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

// machine opens an empty state.
func machine(t *testing.T) *storage.Machine {
	t.Helper()
	m, err := storage.OpenMachine(storage.MachineOptions{FS: vfs.NewMem(), Dir: "state"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // nothing is lost with it
	return m
}

func TestBackupIsWholeAndSaysWhatItIs(t *testing.T) {
	s, _ := newTestServer(t, machine(t))
	response, body := ask(t, s, http.MethodGet, "digest super:secret")
	if response.StatusCode != http.StatusOK || response.Header.Get(ZxidHeader) != "0x0" ||
		response.Header.Get(ZnodesHeader) != "4" || response.Header.Get("Content-Type") != ContentType {
		t.Fatalf("%s %v", response.Status, response.Header)
	}
	b, err := storage.OpenBackup(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(nil); err != nil || b.Info().Writer != "test" || b.Info().Made == 0 {
		t.Errorf("%+v, %v", b.Info(), err)
	}
	if response.Trailer.Get(ErrorTrailer) != "" {
		t.Errorf("trailer %v", response.Trailer)
	}
}

// TestOnlyASuperuserGetsABackup holds against everybody else.
func TestOnlyASuperuserGetsABackup(t *testing.T) {
	s, _ := newTestServer(t, source(func(context.Context, storage.BackupOptions, io.Writer) error {
		t.Error("a backup was made")
		return nil
	}))
	for _, c := range []struct {
		method, authorization string
		status                int
	}{
		{http.MethodGet, "", http.StatusUnauthorized},
		{http.MethodGet, "digest", http.StatusUnauthorized},
		{http.MethodGet, "basic super:secret", http.StatusUnauthorized},
		{http.MethodGet, "digest super:wrong", http.StatusForbidden},
		{http.MethodGet, "digest user:secret", http.StatusForbidden},
		{http.MethodGet, "digest " + superDigest, http.StatusForbidden},
		{http.MethodGet, "ip 127.0.0.1", http.StatusForbidden},
		{http.MethodPost, "digest super:secret", http.StatusMethodNotAllowed},
	} {
		if response, body := ask(t, s, c.method, c.authorization); response.StatusCode != c.status || len(body) == 0 {
			t.Errorf("%s as %q: %s, %q", c.method, c.authorization, response.Status, body)
		}
	}
}

// source is a Source of a test's own.
type source func(context.Context, storage.BackupOptions, io.Writer) error

// Backup implements Source.
func (s source) Backup(ctx context.Context, o storage.BackupOptions, w io.Writer) (storage.BackupInfo, error) {
	return storage.BackupInfo{}, s(ctx, o, w)
}

// TestFailuresAreTold fails before the first byte, and in the middle.
func TestFailuresAreTold(t *testing.T) {
	broken := errors.New("broken")
	s, _ := newTestServer(t, source(func(context.Context, storage.BackupOptions, io.Writer) error { return broken }))
	response, body := ask(t, s, http.MethodGet, "digest super:secret")
	if response.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), "log says why") {
		t.Errorf("%s: %s", response.Status, body)
	}
	s, _ = newTestServer(t, source(func(_ context.Context, o storage.BackupOptions, w io.Writer) error {
		if err := o.Begun(storage.BackupInfo{}); err != nil {
			return err
		}
		_, err := io.WriteString(w, "half")
		return errors.Join(err, broken)
	}))
	response, body = ask(t, s, http.MethodGet, "digest super:secret")
	if string(body) != "half" || response.Trailer.Get(ErrorTrailer) == "" {
		t.Errorf("%q, trailer %v", body, response.Trailer)
	}
}

// TestOneBackupAtATime turns the second away, and takes the third when the first has ended.
func TestOneBackupAtATime(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	s, _ := newTestServer(t, source(func(_ context.Context, o storage.BackupOptions, _ io.Writer) error {
		begun <- struct{}{}
		<-end
		return o.Begun(storage.BackupInfo{})
	}))
	first := make(chan int)
	go func() {
		response, _ := ask(t, s, http.MethodGet, "digest super:secret")
		first <- response.StatusCode
	}()
	<-begun
	if response, _ := ask(t, s, http.MethodGet, "digest super:secret"); response.StatusCode !=
		http.StatusTooManyRequests {
		t.Errorf("the second: %s", response.Status)
	}
	close(end)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first: %d", status)
	}
	go func() { <-begun }()
	if response, _ := ask(t, s, http.MethodGet, "digest super:secret"); response.StatusCode != http.StatusOK {
		t.Errorf("the third: %s", response.Status)
	}
}
