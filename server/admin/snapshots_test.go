package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/stats/catalog"
)

// store takes and restores.
type store struct {
	keep     bool
	restored string
	err      error
	body     io.Reader
}

func (s *store) Take(_ context.Context, keep bool) (Snapshot, error) {
	s.keep = keep
	return Snapshot{Zxid: 0x1f, Bytes: 4, Body: io.NopCloser(s.body)}, s.err
}

func (s *store) Restore(_ context.Context, r io.Reader) (jute.Zxid, error) {
	b, err := io.ReadAll(r)
	s.restored = string(b)
	return 0x2f, errors.Join(err, s.err)
}

var super = []string{"Authorization", "digest super:admin"}

func TestSnapshotAndRestore(t *testing.T) {
	st := &store{body: strings.NewReader("ZKSN")}
	o := options(t, standalone())
	now := clock.NewManual(time.Unix(0, 0))
	o.Clock = now
	o.Snapshots, o.Restorer, o.SnapshotInterval, o.RestoreInterval = st, st, time.Second, time.Minute
	s := New(o)
	w := respond(s, "GET", "/commands/snapshot", "", super...)
	h := map[string][]string(w.Header()) // ZooKeeper's names, as they are
	if w.Code != http.StatusOK || w.Body.String() != "ZKSN" || st.keep || h["last_zxid"][0] != "0x1f" ||
		h["snapshot_size"][0] != "4" || h["Content-Type"][0] != "application/octet-stream" {
		t.Errorf("snapshot: %d %v %q", w.Code, h, w.Body)
	}
	if _, body := ask(t, s, "GET", "/commands/lsnp"); !strings.Contains(body, `"zxid" : "1f",`) {
		t.Errorf("last snapshot: %s", body)
	}
	if w = respond(s, "GET", "/commands/snapshot", "", super...); w.Code != http.StatusTooManyRequests {
		t.Errorf("at once again: %d", w.Code)
	}
	now.Advance(time.Second + 1)
	w = respond(s, "GET", "/commands/snapshot?streaming=false", "", super...)
	if want := `{"command" : "snapshot","error" : null}`; oneLine(w.Body.String()) != want || !st.keep {
		t.Errorf("without streaming: %d %s", w.Code, w.Body)
	}
	w = respond(s, "POST", "/commands/restore", "a state", super...)
	want := `{"last_zxid" : 47,"command" : "restore","error" : null}`
	if oneLine(w.Body.String()) != want || st.restored != "a state" {
		t.Errorf("restore: %d %s, restored %q", w.Code, w.Body, st.restored)
	}
	if w = respond(s, "POST", "/commands/restore", "", super...); w.Code != http.StatusTooManyRequests {
		t.Errorf("at once again: %d", w.Code)
	}
	now.Advance(time.Minute + 1)
	st.err = errors.New("no disk")
	if w = respond(s, "GET", "/commands/snap", "", super...); w.Code != http.StatusInternalServerError {
		t.Errorf("a snapshot that fails: %d", w.Code)
	}
	w = respond(s, "POST", "/commands/rest", "", super...)
	want = `{"command" : "restore","error" : "no disk"}`
	if w.Code != http.StatusInternalServerError || oneLine(w.Body.String()) != want {
		t.Errorf("a restore that fails: %d %s", w.Code, w.Body)
	}
	v := catalog.New()
	s.SetMetrics(v)
	for _, name := range []string{"snapshot_error_count", "snapshot_rate_limited_count", "restore_error_count",
		"restore_rate_limited_count"} {
		if n, _ := v.Number(name); n.Whole != 1 {
			t.Errorf("%s is %d, want 1", name, n.Whole)
		}
	}
}

// TestASnapshotThatBreaksOff: the client sees that it has not all.
func TestASnapshotThatBreaksOff(t *testing.T) {
	o := options(t, standalone())
	o.Snapshots = &store{body: io.MultiReader(strings.NewReader("ZK"), failing{})}
	s := httptest.NewServer(New(o))
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/commands/snapshot", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(super[0], super[1])
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("read %q without an error", b)
	}
}

// failing is a disk that breaks.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken") }

// TestAStateThatDoesNotCome: a client that sends a part and no more is not waited for.
func TestAStateThatDoesNotCome(t *testing.T) {
	o := options(t, standalone())
	st := &store{}
	o.Restorer, o.Clock, o.IdleTimeout = st, clock.Real(), time.Second
	s := httptest.NewServer(New(o))
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "POST /commands/restore HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n%s: %s\r\n\r\nhalf",
		super[0], super[1]); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusInternalServerError || st.restored != "half" {
		t.Errorf("%s, restored %q", answer.Status, st.restored)
	}
}
