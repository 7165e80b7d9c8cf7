package peers

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/storage/ensemble"
	"zkd/storage/state/statetest"
)

// TestWhoLeavesIsKnownWhileItVotes: after a start there are peers that no configuration names any more and the group
// still needs, until they take part no longer.
func TestWhoLeavesIsKnownWhileItVotes(t *testing.T) {
	parse := func(text string) *ensemble.Config {
		c, err := ensemble.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	manual := clock.NewManual(time.Unix(1, 0))
	p := &Peers{opts: Options{Clock: manual}, configured: *parse("server.1=a:1:2\nserver.3=c:1:2")}
	left := parse("server.3=c:1:2\nserver.4=d:1:2")
	known := func(want ...uint64) {
		t.Helper()
		if got := slices.Sorted(maps.Keys(p.known)); !slices.Equal(got, want) {
			t.Errorf("peers %v, want %v", got, want)
		}
	}
	p.place(left, []uint64{1, 2, 3, 4})
	known(1, 2, 3, 4)
	if got := p.known[1].addresses; !slices.Equal(got, []string{"a:1"}) {
		t.Errorf("server 1 is looked for at %v", got)
	}
	if got := p.known[2].addresses; len(got) != 0 {
		t.Errorf("server 2 is looked for at %v: only itself can say where it is", got)
	}
	p.place(left, []uint64{3, 4})
	known(1, 2, 3, 4) // they are told
	manual.Advance(lingerFor + time.Second)
	p.place(left, []uint64{3, 4})
	known(3, 4)
}

// TestWhoComesBackLooksWhereItsFileSays: a server that comes back on its data looks for the others where they were,
// where its file has them, and for those that have come since; once it has had a leader it goes by the state.
func TestWhoComesBackLooksWhereItsFileSays(t *testing.T) {
	parse := func(text string) *ensemble.Config {
		c, err := ensemble.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	file, state := "server.1=a:1:2\nserver.3=c:7:8\nserver.4=d:1:2", "server.2=b:1:2\nserver.3=c:1:2"
	p := &Peers{opts: Options{Clock: clock.NewManual(time.Unix(1, 0))}, configured: *parse(file)}
	p.place(p.withThoseOfTheFile(parse(state)), nil)
	at := map[uint64][]string{}
	for id, s := range p.known { // order: each for itself
		at[id] = slices.Concat(s.addresses, p.elsewhere(id, s))
	}
	want := map[uint64][]string{1: {"a:1"}, 2: {"b:1"}, 3: {"c:1", "c:7"}, 4: {"d:1"}}
	if !maps.EqualFunc(at, want, slices.Equal) {
		t.Errorf("they are looked for at %v, want %v", at, want)
	}
	p.led = true
	if got := p.elsewhere(3, p.known[3]); len(got) != 0 {
		t.Errorf("with a leader it looks for server 3 at %v, too", got)
	}
	if got := p.withThoseOfTheFile(parse(state)); len(got.Servers) != 2 {
		t.Errorf("with a leader it looks for %v", got.Servers)
	}
}

// configured returns a server 1 whose zoo.cfg and whose state name other members, and its zoo.cfg. It keeps time and
// logs as given.
func configured(t *testing.T, c clock.Clock, logger *slog.Logger) (p *Peers, static, lines string) {
	t.Helper()
	h := statetest.New(t)
	h.Lines("found id=1 config=server.1=a:1:2;2181,server.2=b:1:2;2181,version=1")
	static = filepath.Join(t.TempDir(), "zoo.cfg")
	lines = "dataDir=/d\ninitLimit=5\nsyncLimit=5\nreconfigEnabled=true\nstandaloneEnabled=false\nmyid=1\n" +
		"server.1=a:1:2;2181\nserver.3=c:1:2;2181\n"
	if err := os.WriteFile(static, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := conf.Load(conf.Sources{Path: static, ReadFile: os.ReadFile})
	if err != nil {
		t.Fatal(err)
	}
	return &Peers{machine: h.M, config: config, id: 1, logger: logger, client: "0.0.0.0:2181",
		opts: Options{Files: diskFiles{}, Clock: c}}, static, lines
}

// TestFilesWaitForALeader: who starts on the data of a former membership leaves the lines that the operator has written
// since, until it has a leader, whose members these are.
func TestFilesWaitForALeader(t *testing.T) {
	p, static, lines := configured(t, clock.NewManual(time.Unix(1, 0)), slog.New(slog.DiscardHandler))
	p.writeFiles()
	if now, err := os.ReadFile(static); err != nil || string(now) != lines {
		t.Fatalf("without a leader: %v, %s", err, now)
	}
	p.led = true
	p.writeFiles()
	if now, err := os.ReadFile(static + ".dynamic.1"); err != nil || !strings.Contains(string(now), "server.2=") {
		t.Errorf("with a leader: %v, %s", err, now)
	}
}

// TestFilesAreTriedAgain: while the operator's editor has emptied zoo.cfg, it is left as it is, which the log says now
// and then; what he has saved follows the members.
func TestFilesAreTriedAgain(t *testing.T) {
	manual := clock.NewManual(time.Unix(1, 0))
	var log strings.Builder
	p, static, lines := configured(t, manual, slog.New(slog.NewTextHandler(&log, nil)))
	p.led = true
	save := func(text string) {
		t.Helper()
		if err := os.WriteFile(static, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	told := func() int { return strings.Count(log.String(), "level=ERROR") }
	save("")
	for range 90 {
		p.writeFiles()
		if now, err := os.ReadFile(static); err != nil || len(now) > 0 || !p.unwritten {
			t.Fatalf("an empty zoo.cfg: %v, %s; to be tried again: %v", err, now, p.unwritten)
		}
		manual.Advance(time.Second)
	}
	if n := told(); n != 2 {
		t.Errorf("told %d times in a minute and a half, want twice:\n%s", n, log.String())
	}
	save("# more memory\n" + lines)
	p.writeFiles()
	now, err := os.ReadFile(static)
	if err != nil || !strings.HasPrefix(string(now), "# more memory\ndataDir=/d\n") ||
		!strings.Contains(string(now), "dynamicConfigFile=") || p.unwritten {
		t.Errorf("what was saved: %v, %s; to be tried again: %v", err, now, p.unwritten)
	}
	save("")
	p.writeFiles()
	if n := told(); n != 3 {
		t.Errorf("told %d times, want anew when it begins anew:\n%s", n, log.String())
	}
}
