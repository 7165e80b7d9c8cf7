package top

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"zkd/cmd/zkd/terminal"
	"zkd/compat-tests/leak"
	"zkd/quorum/clock"
	"zkd/server/traffic/report"
)

var update = flag.Bool("update", false, "write testdata anew")

func TestMain(m *testing.M) {
	time.Local = time.UTC // times of slow requests are shown as on this machine
	leak.VerifyTestMain(m)
}

// serverAnswer is what a server of zkd answers: the golden file of package server/admin.
func serverAnswer(int) (*report.Answer, error) {
	b, err := os.ReadFile("../../../server/admin/testdata/top.json")
	if err != nil {
		return nil, err
	}
	a := &report.Answer{}
	return a, json.Unmarshal(b, a)
}

// newAsker returns an asker.
func newAsker() *report.Asker {
	now := clock.NewManual(time.Unix(1_800_000_000, 0))
	return report.NewAsker(report.Options{Timeout: time.Minute, Clock: now})
}

// golden compares a text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestReport: what two servers and one that is away say becomes one report, as text and as JSON.
func TestReport(t *testing.T) {
	a := newAsker()
	targets := []report.Target{{Name: "zk1:2181", Own: serverAnswer}, {Name: "zk2:2181", Own: serverAnswer},
		{Name: "zk3:2181"}}
	r := a.Ask(t.Context(), targets, 2)
	if err := r.Answered(); err != nil || a.Waits(r) {
		t.Error(err)
	}
	var b strings.Builder
	if err := Text(&b, r, &TextOptions{Rows: 10}); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", b.String())
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", string(text)+"\n")
	if strings.ContainsRune(b.String(), 0x1b) {
		t.Error("a name from a stranger is an escape sequence")
	}
	b.Reset()
	if err := Text(&b, r, &TextOptions{View: "znodes", Filter: "two", Sort: "p99", Rows: 1}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(b.String(), "\n"); !strings.Contains(lines[6], "P99*") || len(lines) != 9 {
		t.Errorf("znodes with two, by p99:\n%s", b.String())
	}
}

// aReport is the report of one server.
func aReport(t *testing.T) *Report {
	t.Helper()
	return newAsker().Ask(t.Context(), []report.Target{{Name: "zk1:2181", Own: serverAnswer}}, 2)
}

// screenText is what is on a screen.
func screenText(lines []terminal.Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Text + "\n")
	}
	return b.String()
}

// press has a model take keys.
func press(t *testing.T, m *Model, keys string) {
	t.Helper()
	for _, k := range keys {
		if m.Key(terminal.Key(k)) {
			t.Fatalf("%q ends", k)
		}
	}
}

// TestModel: what keys do to what is shown.
func TestModel(t *testing.T) {
	m := NewModel(&TextOptions{})
	if got := screenText(m.Lines(24)); !strings.Contains(got, "asking") {
		t.Errorf("at first: %s", got)
	}
	r := aReport(t)
	m.Show(r)
	golden(t, "screen.txt", screenText(m.Lines(24)))
	want := func(what string, texts ...string) {
		t.Helper()
		got := screenText(m.Lines(24))
		for _, text := range texts {
			if !strings.Contains(got, text) {
				t.Errorf("%s: %q is not on the screen:\n%s", what, text, got)
			}
		}
	}
	press(t, m, "3")
	want("znodes", "[3 Znodes]", "/app/one", `\x1b[2J`)
	press(t, m, "/tw")
	want("while a filter is typed", "/tw_", `"two"`)
	press(t, m, "o\r")
	if got := screenText(m.Lines(24)); strings.Contains(got, "/app/one") || !strings.Contains(got, `"two"`) {
		t.Errorf("filtered:\n%s", got)
	}
	press(t, m, "\x1b")
	want("without a filter", "/app/one")
	press(t, m, "sss")
	want("sorted", "FAIL%*")
	if got := screenText(m.Lines(24)); strings.Index(got, `"two"`) > strings.Index(got, "/app/one") {
		t.Errorf("by failures:\n%s", got)
	}
	press(t, m, "r")
	if got := screenText(m.Lines(24)); strings.Index(got, `"two"`) < strings.Index(got, "/app/one") {
		t.Errorf("the other way round:\n%s", got)
	}
	press(t, m, " ")
	m.Show(&Report{Servers: []report.Server{{Address: "other", Error: "away"}}})
	want("frozen", "FROZEN", "zk1:2181")
	press(t, m, " ")
	want("not frozen", "other  away")
	for range len(report.Views) {
		m.Key(terminal.KeyTab)
	}
	want("all around", "[3 Znodes]")
	m.Key(terminal.KeyLeft)
	want("to the left", "[2 Subtrees]")
	if !m.Key('q') {
		t.Error("q does not end")
	}
}

// TestModelMovesThroughRows: a window of any size shows what fits, and keys move through the rest.
func TestModelMovesThroughRows(t *testing.T) {
	r := aReport(t)
	r.Operations = nil
	for i := range 50 {
		name := "op" + string(rune('A'+i%26)) + string(rune('a'+i/26))
		r.Operations = append(r.Operations, report.Row{Operation: name})
	}
	m := NewModel(&TextOptions{View: "operations"})
	m.Show(r)
	for rows := range 40 {
		if got := len(m.Lines(rows)); got > max(rows, 6) {
			t.Errorf("%d lines in a window of %d", got, rows)
		}
	}
	m.Lines(14)
	shows := func(k terminal.Key, first string) {
		t.Helper()
		m.Key(k)
		if lines := m.Lines(14); !strings.HasPrefix(lines[5].Text, first) {
			t.Errorf("%d: %q is first, want %q", k, lines[5].Text, first)
		}
	}
	shows(terminal.KeyDown, "opBa")
	shows(terminal.KeyPageDown, "opKa")
	shows(terminal.KeyUp, "opJa")
	shows(terminal.KeyPageUp, "opAa")
	shows(terminal.KeyEnd, "opPb")
	shows(terminal.KeyHome, "opAa")
}

// paper is a display that keeps what was drawn.
type paper struct {
	columns atomic.Int64
	drawn   chan string
}

func (p *paper) Size() (columns, rows int) { return int(p.columns.Load()), 30 }

func (p *paper) Draw(lines []terminal.Line) error {
	p.drawn <- screenText(lines)
	return nil
}

// TestLive: reports are shown as they come, keys at once, and a window that changes is drawn anew.
func TestLive(t *testing.T) {
	r := aReport(t)
	now := clock.NewManual(time.Unix(1_800_000_000, 0))
	screen := &paper{drawn: make(chan string)}
	screen.columns.Store(80)
	keys := make(chan terminal.Key)
	asked := 0
	done := make(chan error, 1)
	go func() {
		done <- Live(context.Background(), &LiveOptions{Screen: screen, Keys: keys, Interval: 2 * time.Second,
			Clock: now, Ask: func(context.Context) *Report {
				asked++
				return r
			}, Model: NewModel(&TextOptions{})})
	}()
	if got := <-screen.drawn; !strings.Contains(got, "zk1:2181") {
		t.Errorf("first:\n%s", got)
	}
	keys <- '7'
	if got := <-screen.drawn; !strings.Contains(got, "[7 Slow requests]") || !strings.Contains(got, "REPLICATE") {
		t.Errorf("slow requests:\n%s", got)
	}
	screen.columns.Store(120)
	now.AwaitEvents(2)
	now.Advance(sizeTick)
	<-screen.drawn
	now.Advance(2 * time.Second)
	<-screen.drawn
	keys <- 'q'
	if err := <-done; err != nil || asked < 2 {
		t.Errorf("%v after %d reports", err, asked)
	}
}

func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		o    TextOptions
		want string
	}{
		{TextOptions{}, ""}, {TextOptions{View: "znodes", Sort: "req/s"}, ""}, {TextOptions{Sort: "USER"}, ""},
		{TextOptions{View: "nodes"}, "want one of operations, subtrees"},
		{TextOptions{View: "znodes", Sort: "USER"}, "want one of ZNODE"},
		{TextOptions{Sort: "x"}, "want one of OPERATION"},
	} {
		err := tc.o.Check()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%+v: %v, want %q", tc.o, err, tc.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for in, want := range map[float64]string{0: "0", 0.5: "0.5", 12: "12", 999: "999", 1234: "1.23k", 56789: "56.8k",
		3456789: "3.46M", 2e9: "2.00G"} { // any order
		if got := report.Short(in); got != want {
			t.Errorf("%v is %q, want %q", in, got, want)
		}
	}
	for in, want := range map[float64]string{0: "-", 7: "7us", 1500: "1.50ms", 2.5e6: "2.50s"} { // any order
		if got := report.Micros(in); got != want {
			t.Errorf("%v us is %q, want %q", in, got, want)
		}
	}
	if got := shorten("/a/very/long/path/indeed", 11); got != "/a/ve…ndeed" {
		t.Error(got)
	}
}
