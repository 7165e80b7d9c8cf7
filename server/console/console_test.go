package console

import (
	"crypto/rand"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/console/survey"
	"zkd/server/traffic/report"
)

// figures is a console of an ensemble whose only server says f.
func figures(t *testing.T, f survey.Figures) *Console {
	t.Helper()
	c, err := New(Options{Clock: clock.Real(), Logger: slog.New(slog.DiscardHandler), Random: rand.Reader,
		Ensembles: []Ensemble{{Name: "one", Places: func() []survey.Place {
			return []survey.Place{{Addr: "a:1", Figures: func() (survey.Figures, error) { return f, nil }}}
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestWhatServersSayIsText(t *testing.T) {
	c := figures(t, survey.Figures{"server_state": "<script>alert(1)</script>", "version": "<b>", "znode_count": "x"})
	r := httptest.NewRequest(http.MethodGet, Path+"one/", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:1", "127.0.0.1:8080"
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	if text := w.Body.String(); w.Code != http.StatusOK || strings.Contains(text, "<script>alert") ||
		!strings.Contains(text, "&lt;script&gt;alert(1)") {
		t.Errorf("%d %s", w.Code, text)
	}
}

func TestNamesOfEnsemblesAreChecked(t *testing.T) {
	for _, name := range []string{"", "static", "a/b", "a b", "ü"} {
		if _, err := New(Options{Clock: clock.Real(), Ensembles: []Ensemble{{Name: name}}}); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
	if _, err := New(Options{Clock: clock.Real(), Ensembles: []Ensemble{{Name: "a"}, {Name: "a"}}}); err == nil {
		t.Error("one name for two is taken")
	}
}

func TestVisitsEnd(t *testing.T) {
	m := clock.NewManual(time.Unix(1_000_000, 0))
	all := newVisits(m, rand.Reader)
	v, cookie, err := all.begin()
	if err != nil {
		t.Fatal(err)
	}
	request := func(path string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.AddCookie(&http.Cookie{Name: cookieName, Value: cookie})
		return r
	}
	m.Advance(visitIdle)
	if all.find(request(Path+"e/tree")) != v {
		t.Error("it ends while it is used")
	}
	m.Advance(visitIdle)
	if all.find(request(Path+"e/tree/live")) != v {
		t.Error("it ends at its bound")
	}
	m.Advance(time.Second)
	if all.find(request(Path+"e/tree")) != nil {
		t.Error("what a page asks for by itself keeps it")
	}
	if _, cookie, err = all.begin(); err != nil {
		t.Fatal(err)
	}
	for range visitMost / visitIdle {
		m.Advance(visitIdle)
		all.find(request(Path))
	}
	m.Advance(time.Second)
	if all.find(request(Path)) != nil {
		t.Error("it goes on for ever")
	}
	for range visitsMax + 10 {
		if _, _, err := all.begin(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(all.all); n > visitsMax {
		t.Errorf("%d visits", n)
	}
}

func TestPlacesAreReadFromTheConfiguration(t *testing.T) {
	text := "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=10.0.0.2:2888:3888:observer;2182\n" +
		"server.3=zk3:2888:3888:participant\nserver.4=[::1]:2888:3888:participant;[::]:2184\n" +
		"server.5=zk5:1:2\nversion=0\n"
	got := PlacesOf(text, []string{"zk3:2183"})
	want := []survey.Place{{ID: "1", Addr: "zk1:2181", Role: "participant"},
		{ID: "2", Addr: "10.0.0.2:2182", Role: "observer"}, {ID: "3", Addr: "zk3:2183", Role: "participant"},
		{ID: "4", Addr: "[::1]:2184", Role: "participant"}, {ID: "5", Role: "participant"}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i].ID != want[i].ID || got[i].Addr != want[i].Addr || got[i].Role != want[i].Role {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

func TestJournalKeepsTheLastWarnings(t *testing.T) {
	var out strings.Builder
	j := NewJournal(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}))
	l := slog.New(j).With(slog.Int("server", 1))
	l.Info("not kept")
	for range journalMax {
		l.Warn("kept", slog.String("path", "/a"))
	}
	l.Error("the last", slog.String("long", strings.Repeat("x", 2*lineMax)))
	got := j.Latest(2 * journalMax)
	if len(got) != journalMax || got[0].Message != "the last" || len(got[0].More) > lineMax+3 ||
		got[1].More != "server=1 path=/a" {
		t.Errorf("%d lines, %+v", len(got), got[:2])
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("handed on: %s", out.String())
	}
}

func TestPicturesEndAtGaps(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	var history []survey.Point
	for i := range 4 {
		p := survey.Point{At: at.Add(time.Duration(i) * time.Second), Known: true, Writes: float64(i)}
		history = append(history, p)
	}
	history = append(history, survey.Point{At: at.Add(time.Minute), Known: true, Writes: 2})
	c := draw("Writes", "a second", history, func(p *survey.Point) float64 { return p.Writes }, rateText)
	if strings.Count(c.Line, "M") != 2 || c.Value != "2.0" || c.Top != "3.0" || !strings.Contains(c.Says, "Writes") {
		t.Errorf("%+v", c)
	}
	if c := draw("Writes", "", nil, nil, rateText); c.Value != "—" || c.Line != "" {
		t.Errorf("%+v", c)
	}
}

func TestKindsOfZnodes(t *testing.T) {
	for owner, want := range map[jute.SessionID]string{
		0: "persistent", 0x1a20d7041520001: "ephemeral",
	} {
		if got, _ := kindOf(owner); !strings.Contains(got, want) {
			t.Errorf("%#x: %q", uint64(owner), got)
		}
	}
}

func TestFormsLeadToTheConsole(t *testing.T) {
	e := &ensemble{Ensemble: Ensemble{Name: "one"}}
	for to, want := range map[string]string{
		"/console/one/tree?path=/a": "/console/one/tree?path=/a", "": "/console/one/",
		"https://evil/console/": "/console/one/",
		"//evil/console/":       "/console/one/", "/console/\\evil": "/console/one/", "/commands": "/console/one/",
		"/console/one/\r\nX: y": "/console/one/", "javascript:alert(1)": "/console/one/",
	} {
		if got := localTarget(to, e); got != want {
			t.Errorf("%q leads to %q", to, got)
		}
	}
}

// TestAssetsAreSmall: what browsers fetch besides pages is far below the 500 KB that are its bound.
func TestAssetsAreSmall(t *testing.T) {
	sum := int64(0)
	err := fs.WalkDir(files, ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil || sum == 0 || sum > 20_000 {
		t.Errorf("%d bytes, %v: docs/console.md says less than 20 KB", sum, err)
	}
}

func TestBuildsAreNamed(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.3": "zkd 1.2.3, speaks as ZooKeeper 3.9.5", "": "zkd built from sources without a version, by go1.",
		"unknown":               "zkd built from sources without a version, by go1.",
		strings.Repeat("b", 40): "zkd bbbbbbbbbbbb, speaks",
	} {
		if got := buildText(version); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q", version, got)
		}
	}
}

// TestWhatAnOpenPageCosts: however many look, for however long, their server is asked for its figures once a second.
func TestWhatAnOpenPageCosts(t *testing.T) {
	m := clock.NewManual(time.Unix(1_000_000, 0))
	asked := 0
	c, err := New(Options{Clock: m, Logger: slog.New(slog.DiscardHandler), Random: rand.Reader,
		Ensembles: []Ensemble{{Name: "one", Here: &Here{Name: "a:1", Top: func(int) (*report.Answer, error) {
			asked++
			return &report.Answer{}, nil
		}}, Places: func() []survey.Place {
			return []survey.Place{{Addr: "a:1", Figures: func() (survey.Figures, error) {
				asked++
				return survey.Figures{"server_state": "standalone"}, nil
			}}}
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	look := func(path string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, Path+"one/"+path, nil)
		r.RemoteAddr, r.Host = "127.0.0.1:1", "127.0.0.1:8080"
		w := httptest.NewRecorder()
		if c.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"overview/live", "top/live"} {
		asked = 0
		for range 60 {
			m.Advance(time.Second)
			for range 10 { // pages that stand open
				look(path)
			}
		}
		if asked != 60 {
			t.Errorf("%s: asked %d times in a minute", path, asked)
		}
		m.Advance(time.Hour)
		if asked != 60 {
			t.Errorf("%s: asked while nobody looks", path)
		}
	}
}
