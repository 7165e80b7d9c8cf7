package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"zkd/jute"
)

const (
	reg     = "/r/r0"
	second  = int64(time.Second)
	session = jute.SessionID(7)
)

// honest is a history that nothing is wrong with. Each lie changes one thing in it.
func honest() []Op {
	return []Op{
		{
			Client: 1, Session: session, Kind: Write, Path: reg, Value: "a",
			Call: 1, Ret: 3, Outcome: Done, Version: 1, Mzxid: 11, Zxid: 11,
		},
		{Client: 2, Kind: SyncRead, Path: reg, Value: "a", Call: 4, Ret: 5, Outcome: Done, Version: 1, Mzxid: 11},
		{Client: 1, Session: session, Kind: Swap, Path: reg, Value: "b", Call: 6, Ret: 7, Outcome: Refused},
		{Client: 2, Kind: Write, Path: reg, Value: "c", Call: 6, Ret: never, Outcome: Unknown},
		{
			Client: 1, Session: session, Kind: Swap, Path: reg, Value: "d", Expected: 2,
			Call: 8, Ret: 9, Outcome: Done, Version: 3, Mzxid: 13, Zxid: 13,
		},
		{
			Client: 1, Session: session, Kind: Read, Path: reg, Value: "d",
			Call: 10, Ret: 11, Outcome: Done, Version: 3, Mzxid: 13,
		},
		{Client: 2, Kind: Write, Path: reg, Value: "e", Call: 10, Ret: never, Outcome: Unknown},
		{Client: 3, Kind: Create, Path: "/r/c/x", Call: 12, Ret: 13, Outcome: Done, Zxid: 14},
		{
			Client: 3, Kind: Sequential, Path: "/r/s/n-", Value: "/r/s/n-0000000000",
			Call: 14, Ret: 15, Outcome: Done, Zxid: 15,
		},
		{
			Client: 4, Kind: Sequential, Path: "/r/s/n-", Value: "/r/s/n-0000000001",
			Call: 14, Ret: 17, Outcome: Done, Zxid: 16,
		},
		{Client: 3, Kind: Multi, Path: "/r/m/x", Call: 18, Ret: 19, Outcome: Done, Zxid: 17},
		{Client: 3, Kind: Create, Path: "/r/c/y", Call: 20, Ret: 21, Outcome: Done, Zxid: 18},
		{Client: 3, Kind: Remove, Path: "/r/c/y", Call: 22, Ret: 23, Outcome: Done, Zxid: 19},
	}
}

// kept is the tree that honest leaves.
func kept() Tree {
	return Tree{
		reg: {"d", jute.Stat{Version: 3, Mzxid: 13}}, "/r/c/x": {}, "/r/s/n-0000000000": {}, "/r/s/n-0000000001": {},
		"/r/m/x-a": {}, "/r/m/x-b": {},
	}
}

// violations runs all checks of operations.
func violations(t *testing.T, ops []Op, tree Tree) string {
	t.Helper()
	var found []string
	violated := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	CheckRegisters(ops, true, violated, func(porcupine.LinearizationInfo) {})
	CheckVersions(ops, violated)
	CheckZxids(ops, violated)
	CheckSessions(ops, violated)
	CheckNames(ops, violated)
	CheckKept(ops, tree, violated)
	return strings.Join(found, "\n")
}

func TestChecksPassWhatIsTrue(t *testing.T) {
	if got := violations(t, honest(), kept()); got != "" {
		t.Errorf("found in a true history: %s", got)
	}
}

// TestChecksFindLies plants one lie at a time: every check has to earn its keep.
func TestChecksFindLies(t *testing.T) {
	tests := map[string]struct {
		lie  func(ops []Op, tree Tree) []Op
		want string
	}{
		"acknowledged write dropped": {func(ops []Op, tree Tree) []Op {
			ops[4].Outcome, ops[4].Version = Done, 2 // as if c was never there, though 2 was expected
			return ops
		}, "no order"},
		"write lost between reads": {func(ops []Op, _ Tree) []Op {
			return append(ops, Op{
				Client: 5, Kind: SyncRead, Path: reg, Value: "a",
				Call: 30, Ret: 31, Outcome: Done, Version: 1, Mzxid: 11,
			})
		}, "no order"},
		"read of what nobody wrote": {func(ops []Op, _ Tree) []Op {
			ops[1].Value = "z"
			return ops
		}, "no order"},
		"swap of a wrong version taken": {func(ops []Op, _ Tree) []Op {
			ops[4].Expected = 1
			return ops
		}, "no order"},
		"swap of the right version refused": {func(ops []Op, _ Tree) []Op {
			ops[2].Expected = 1
			ops[2].Call, ops[2].Ret, ops[3].Call = 4, 5, 6
			return ops
		}, "no order"},
		"unknown write twice": {func(ops []Op, _ Tree) []Op {
			ops[4].Expected, ops[4].Version, ops[5].Version = 3, 4, 4
			return slices.Delete(ops, 6, 7)
		}, "no order"},
		"one version, two values": {func(ops []Op, _ Tree) []Op {
			ops[5].Value = "x"
			return ops
		}, "two contents"},
		"one version, two zxids": {func(ops []Op, _ Tree) []Op {
			ops[5].Mzxid = 14
			return ops
		}, "two contents"},
		"zxid against versions": {func(ops []Op, _ Tree) []Op {
			ops[0].Mzxid, ops[0].Zxid, ops[1].Mzxid = 30, 30, 30
			return ops
		}, "earlier zxid"},
		"zxid against time": {func(ops []Op, _ Tree) []Op {
			ops[7].Zxid = 12
			return ops
		}, "was acknowledged before"},
		"zxid twice": {func(ops []Op, _ Tree) []Op {
			ops[9].Zxid = 15
			return ops
		}, "two writes have zxid"},
		"session goes back": {func(ops []Op, _ Tree) []Op {
			ops[5].Value, ops[5].Version, ops[5].Mzxid = "a", 1, 11
			return ops
		}, "went back"},
		"name twice": {func(ops []Op, _ Tree) []Op {
			ops[9].Value = ops[8].Value
			return ops
		}, "one name"},
		"names against zxids": {func(ops []Op, _ Tree) []Op {
			ops[8].Zxid, ops[9].Zxid = 16, 15
			return ops
		}, "a later name"},
		"create lost": {func(ops []Op, tree Tree) []Op {
			delete(tree, "/r/c/x")
			return ops
		}, "lost"},
		"sequence lost": {func(ops []Op, tree Tree) []Op {
			delete(tree, "/r/s/n-0000000001")
			return ops
		}, "lost"},
		"multi lost": {func(ops []Op, tree Tree) []Op {
			delete(tree, "/r/m/x-a")
			delete(tree, "/r/m/x-b")
			return ops
		}, "by half"},
		"unknown multi by half": {func(ops []Op, tree Tree) []Op {
			ops[10].Outcome = Unknown
			delete(tree, "/r/m/x-b")
			return ops
		}, "by half"},
		"delete undone": {func(ops []Op, tree Tree) []Op {
			tree["/r/c/y"] = Znode{}
			return ops
		}, "not deleted"},
		"write lost on a server": {func(ops []Op, tree Tree) []Op {
			tree[reg] = Znode{"c", jute.Stat{Version: 2, Mzxid: 12}}
			return ops
		}, "lost"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tree := kept()
			if got := violations(t, test.lie(honest(), tree), tree); !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q in it", got, test.want)
			}
		})
	}
}

func TestTreesDiffer(t *testing.T) {
	a, b := kept(), kept()
	if got := CompareTrees(a, b); len(got) != 0 {
		t.Errorf("equal trees differ: %v", got)
	}
	b[reg] = Znode{"d", jute.Stat{Version: 3, Mzxid: 14}}
	delete(b, "/r/c/x")
	if got := CompareTrees(a, b); len(got) != 2 {
		t.Errorf("found %v, want one Stat and one znode", got)
	}
}

func TestEphemeralLies(t *testing.T) {
	const path, timeout, tick = "/r/e/x", 4 * time.Second, 500 * time.Millisecond
	life := Ephemeral{Path: path, Session: session, Created: 10 * second, Acked: 20 * second, Timeout: int64(timeout)}
	look := func(at int64, present bool) []Sighting {
		return []Sighting{{Path: path, Call: at, Ret: at + 1, Present: present, Owner: session}}
	}
	tests := map[string]struct {
		change    func(*Ephemeral)
		sightings []Sighting
		want      string // "" for what is true
	}{
		"there while it lives":  {func(*Ephemeral) {}, look(15*second, true), ""},
		"gone while it lives":   {func(*Ephemeral) {}, look(15*second, false), "was gone"},
		"gone before":           {func(*Ephemeral) {}, look(5*second, false), ""},
		"gone in doubt":         {func(*Ephemeral) {}, look(21*second, false), ""},
		"another's":             {func(e *Ephemeral) { e.Session = 8 }, look(15*second, true), "belongs to"},
		"there after the close": {func(e *Ephemeral) { e.Closed = 21 * second }, look(22*second, true), "was closed"},
		"there after expiry": {func(e *Ephemeral) { e.Expired, e.Ending = 25*second, 20*second },
			look(25*second+int64(toldSlack)+1, true), "had expired"},
		"there long after it was left": {func(e *Ephemeral) { e.Ending = 20 * second },
			look(20*second+int64(timeout+expirySlack)+1, true), "was left"},
		"expired too early": {func(e *Ephemeral) { e.Expired = 23 * second }, nil, "expired by"},
		"expired in time":   {func(e *Ephemeral) { e.Expired = 24 * second }, nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e, got := life, ""
			test.change(&e)
			CheckEphemerals(map[string]*Ephemeral{path: &e}, test.sightings, tick, func(format string, args ...any) {
				got += fmt.Sprintf(format, args...)
			})
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q in it", got, test.want)
			}
		})
	}
}

// TestSessionNotices plays a server that lies to a session.
func TestSessionNotices(t *testing.T) {
	w := Watch{Path: reg}
	event := func(s *Session, kind jute.EventType) {
		s.event(0, &jute.WatcherEvent{Type: kind, State: jute.StateConnected, Path: reg})
	}
	tests := map[string]struct {
		play func(s *Session)
		want string
	}{
		"event, then news": {func(s *Session) {
			s.view(w, 1, true)
			event(s, jute.EventNodeDataChanged)
			s.view(w, 2, false)
		}, ""},
		"news, then event": {func(s *Session) {
			s.view(w, 1, true)
			s.view(w, 2, false)
			event(s, jute.EventNodeDataChanged)
		}, "missed"},
		"news when set again": {func(s *Session) {
			s.view(w, 1, true)
			s.view(w, 2, true)
		}, "missed"},
		"fired twice": {func(s *Session) {
			s.view(w, 1, true)
			event(s, jute.EventNodeDataChanged)
			event(s, jute.EventNodeDataChanged)
		}, "without a watch"},
		"fired for another": {func(s *Session) {
			s.view(w, 1, true)
			event(s, jute.EventNodeChildrenChanged)
		}, "without a watch"},
		"zxid goes back": {func(s *Session) {
			s.seen(jute.OpGetData, &Reply{ReplyHeader: jute.ReplyHeader{Zxid: 5}})
			s.seen(jute.OpGetData, &Reply{ReplyHeader: jute.ReplyHeader{Zxid: 4}})
		}, "after 0x5"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			s := &Session{Watching: map[Watch]jute.Zxid{}}
			s.o.Violated = func(format string, args ...any) { got += fmt.Sprintf(format, args...) }
			test.play(s)
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q in it", got, test.want)
			}
		})
	}
}
