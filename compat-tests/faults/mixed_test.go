package faults

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
	"zkd/storage/entry"
)

// The keys and figures of feature levels (docs/operations.md, "Upgrades").
const (
	levelLimit  = "zkd.featureLevelMax"
	levelFigure = "zk_zkd_feature_level"
)

// harmTime is how long faults go on while the versions are mixed.
const harmTime = 5 * time.Second

// TestRollingUpgradeAndBack takes an ensemble of the zkd of before feature levels to this one, back, and up again for
// good, under load: servers of both stand side by side, are killed, lose their disks and are sent each other's state.
// While one operator holds the old level, everything goes back. Then the level is raised, and the old zkd starts no
// more.
func TestRollingUpgradeAndBack(t *testing.T) {
	seed, _ := settings(t)
	target.Require(t)
	if target.Selected(t) == target.Zookeeper {
		t.Skip("it is about zkd's own versions")
	}
	m := newMixed(t, seed)
	m.run(func() {
		half := func(s *ensemble.Server) {
			if s.ID == 2 { // and the third is of the other version
				m.nemesis.Run(harmTime)
				m.lose(m.e.Servers[2])
			}
		}
		m.roll("", half) // up
		m.atLevel("1")
		m.roll(m.old, half)                   // and back
		m.roll("", func(*ensemble.Server) {}) // up again
		m.atLevel("1")
		for _, s := range m.e.Servers { // and for good
			m.allow(s)
			m.nemesis.Restart(s)
		}
		m.atLevel(strconv.Itoa(int(entry.LevelNewest)))
		m.refuses(m.e.Followers()[0])
		m.nemesis.Run(harmTime)
	})
}

// mixed is an ensemble of servers of two versions, and its load.
type mixed struct {
	*round
	old string // the binary of before; "" is this one's
}

// newMixed starts three servers and an observer of the old zkd, whose operators hold the level.
func newMixed(t *testing.T, seed uint64) *mixed {
	t.Helper()
	m := &mixed{old: target.PreviousZkd(t)}
	e, disks := start(t, m.old)
	began := time.Now()
	now := func() int64 { return int64(time.Since(began)) + 1 }
	m.round = &round{
		t: t, e: e, seed: seed, now: now, history: NewHistory(), stop: make(chan struct{}), root: "/mixed",
	}
	m.nemesis = NewNemesis(t, e, m.random(0), now, disks)
	return m
}

// roll brings all servers to another binary, one after the other, the leader last, as an operator does; every other one
// is killed, not stopped. After each it calls between.
func (m *mixed) roll(binary string, between func(s *ensemble.Server)) {
	m.t.Helper()
	for i, s := range m.e.Servers {
		m.nemesis.note("server %d, a %s, becomes %q", s.ID, s.Mode(), binary)
		if i%2 == 0 {
			s.Kill9()
		} else {
			s.Stop()
		}
		s.Binary = binary
		m.start(s)
		between(s)
	}
}

// start starts a server and waits as an operator does before the next one: until it is what it was. One whose disk is
// empty serves as an observer at first, until the others have admitted it.
func (m *mixed) start(s *ensemble.Server) {
	m.t.Helper()
	s.Launch()
	m.e.AwaitServing(m.e.Servers...)
	if why := ensemble.Await(healedWithin, func() (bool, string) {
		mode := s.Mode()
		return s.Observer == (mode == "observer") && mode != "", fmt.Sprintf("server %d is a %q", s.ID, mode)
	}); why != "" {
		m.t.Error(why)
	}
	m.awaitWrites()
}

// lose empties the disk of a server, which is then sent the state by the others.
func (m *mixed) lose(s *ensemble.Server) {
	m.t.Helper()
	m.nemesis.note("server %d loses its disk", s.ID)
	s.Kill9()
	s.Wipe()
	m.start(s)
}

// allow takes the limit of the level out of a server's configuration.
func (m *mixed) allow(s *ensemble.Server) {
	m.t.Helper()
	text, err := os.ReadFile(s.ConfigPath())
	if err == nil {
		text := strings.Replace(string(text), levelLimit+"=1\n", "", 1)
		err = os.WriteFile(s.ConfigPath(), []byte(text), 0o600)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// atLevel waits until all servers say that they are at a level.
func (m *mixed) atLevel(level string) {
	m.t.Helper()
	for _, s := range m.e.Servers {
		if why := ensemble.Await(healedWithin, func() (bool, string) {
			text, err := s.FourLetterWord("mntr")
			if err != nil {
				return false, err.Error()
			}
			_, rest, _ := strings.Cut(text, levelFigure+"\t")
			got, _, _ := strings.Cut(rest, "\n")
			return got == level, fmt.Sprintf("server %d is at level %q, want %s", s.ID, got, level)
		}); why != "" {
			m.t.Error(why)
		}
	}
}

// refuses has a server started by the old zkd, which must end and say why; then by the new one, on the same data. The
// old one on an empty disk is kept out by the others.
func (m *mixed) refuses(s *ensemble.Server) {
	m.t.Helper()
	m.nemesis.note("server %d is started by the old zkd", s.ID)
	s.Stop()
	s.Binary = m.old
	s.Launch()
	if why := ensemble.Await(healedWithin, func() (bool, string) {
		return !s.Running(), "the old zkd runs on data of a newer level"
	}); why != "" {
		m.t.Error(why)
	}
	m.says(s, s.LogPath(), "run the zkd that wrote it, or a newer one")
	s.Wipe()
	s.Launch()
	m.says(s, s.LogPath(), fmt.Sprintf("the ensemble is at feature level %d, and the zkd of server", entry.LevelNewest))
	s.Kill9()
	s.Wipe()
	s.Binary = ""
	s.Launch()
	m.e.AwaitServing(m.e.Servers...)
}

// says waits until a server's log holds a text.
func (m *mixed) says(s *ensemble.Server, path, want string) {
	m.t.Helper()
	if why := ensemble.Await(healedWithin, func() (bool, string) {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), want), fmt.Sprintf("server %d does not say %q:\n%s", s.ID,
			want, s.LogTail(20))
	}); why != "" {
		m.t.Error(why)
	}
}
