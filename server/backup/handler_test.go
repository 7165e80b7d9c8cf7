package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/quorum/clock"
	"zkd/server/auth"
	"zkd/storage/backup"
	"zkd/storage/schema"
	"zkd/storage/state"
)

// superDigest is super:secret.
const superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="

// newTestServer serves backups of source, and returns the file system with the scratch directory.
func newTestServer(t *testing.T, source Source) (*httptest.Server, vfs.FS) {
	t.Helper()
	h, fs := newTestHandler(t, slog.New(slog.DiscardHandler), source)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, fs
}

// newTestHandler is what newTestServer serves by.
func newTestHandler(t *testing.T, logger *slog.Logger, source Source) (*Handler, vfs.FS) {
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
		Logger: logger, Writer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Stat("scratch/left-over"); err == nil {
		t.Error("what an earlier process has left is still there")
	}
	return h, fs
}

// answer is what a server has answered.
type answer struct {
	status          int
	header, trailer http.Header
	body            string
}

// ask asks for a backup.
func ask(t *testing.T, s *httptest.Server, method, authorization string) answer {
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
	return answer{response.StatusCode, response.Header, response.Trailer, string(body)}
}

// machine is a Source of an empty state.
func machine(t *testing.T) Source {
	t.Helper()
	m, err := state.OpenMachine(state.MachineOptions{FS: vfs.NewMem(), Dir: "state"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // nothing is lost with it
	return func(
		ctx context.Context, scratch string, o backup.Options, w io.Writer,
	) (schema.Summary, error) {
		return backup.WriteMachine(ctx, m, scratch, o, w)
	}
}

func TestBackupIsWholeAndSaysWhatItIs(t *testing.T) {
	s, _ := newTestServer(t, machine(t))
	a := ask(t, s, http.MethodGet, "digest super:secret")
	if a.status != http.StatusOK || a.header.Get(ZxidHeader) != "0x0" || a.header.Get(ZnodesHeader) != "4" ||
		a.header.Get("Content-Type") != ContentType {
		t.Fatalf("%d %v", a.status, a.header)
	}
	b, err := backup.Open(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(nil); err != nil || b.Info().Writer != "test" || b.Info().Made == 0 {
		t.Errorf("%+v, %v", b.Info(), err)
	}
	if a.trailer.Get(ErrorTrailer) != "" {
		t.Errorf("trailer %v", a.trailer)
	}
}

// TestOnlyASuperuserGetsABackup holds against everybody else.
func TestOnlyASuperuserGetsABackup(t *testing.T) {
	s, _ := newTestServer(t, source(func(context.Context, backup.Options, io.Writer) error {
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
		if a := ask(t, s, c.method, c.authorization); a.status != c.status || a.body == "" {
			t.Errorf("%s as %q: %d, %q", c.method, c.authorization, a.status, a.body)
		}
	}
}

// source is a Source of a test's own.
func source(write func(context.Context, backup.Options, io.Writer) error) Source {
	return func(ctx context.Context, _ string, o backup.Options, w io.Writer) (schema.Summary, error) {
		return schema.Summary{}, write(ctx, o, w)
	}
}

// TestFailuresAreTold fails before the first byte, and in the middle.
func TestFailuresAreTold(t *testing.T) {
	broken := errors.New("broken")
	s, _ := newTestServer(t, source(func(context.Context, backup.Options, io.Writer) error { return broken }))
	a := ask(t, s, http.MethodGet, "digest super:secret")
	if a.status != http.StatusInternalServerError || !strings.Contains(a.body, "log says why") {
		t.Errorf("%d: %s", a.status, a.body)
	}
	s, _ = newTestServer(t, source(func(_ context.Context, o backup.Options, w io.Writer) error {
		if err := o.Begun(schema.Summary{}); err != nil {
			return err
		}
		_, err := io.WriteString(w, "half")
		return errors.Join(err, broken)
	}))
	a = ask(t, s, http.MethodGet, "digest super:secret")
	if a.body != "half" || a.trailer.Get(ErrorTrailer) == "" {
		t.Errorf("%q, trailer %v", a.body, a.trailer)
	}
}

// TestAClientThatGoesIsNoFailure: whoever is interrupted costs no error in the server's log.
func TestAClientThatGoesIsNoFailure(t *testing.T) {
	begun := make(chan struct{})
	var log bytes.Buffer
	h, _ := newTestHandler(t, slog.New(slog.NewTextHandler(&log, nil)),
		source(func(ctx context.Context, _ backup.Options, _ io.Writer) error {
			close(begun)
			<-ctx.Done()
			return fmt.Errorf("write the backup: %w", ctx.Err())
		}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, Path, nil)
	r.Header.Set("Authorization", "digest super:secret")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if said := log.String(); !strings.Contains(said, "level=INFO msg=\"backup given up: client is gone") ||
		strings.Contains(said, "level=ERROR") {
		t.Errorf("the log:\n%s", said)
	}
}

// TestOneBackupAtATime turns the second away, and takes the third when the first has ended.
func TestOneBackupAtATime(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	s, _ := newTestServer(t, source(func(_ context.Context, o backup.Options, _ io.Writer) error {
		begun <- struct{}{}
		<-end
		return o.Begun(schema.Summary{})
	}))
	first := make(chan int)
	go func() { first <- ask(t, s, http.MethodGet, "digest super:secret").status }()
	<-begun
	if a := ask(t, s, http.MethodGet, "digest super:secret"); a.status != http.StatusTooManyRequests {
		t.Errorf("the second: %d", a.status)
	}
	close(end)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first: %d", status)
	}
	go func() { <-begun }()
	if a := ask(t, s, http.MethodGet, "digest super:secret"); a.status != http.StatusOK {
		t.Errorf("the third: %d", a.status)
	}
}
