package simulation

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMoment: what a story tells of its servers is what a deed meets.
func TestMoment(t *testing.T) {
	m := newMoment()
	tell := func(lines ...string) { m.follow(lines) }
	expect := func(who string, want ...State) {
		t.Helper()
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(m.states(who)))); diff != "" {
			t.Errorf("%s: %s", who, diff)
		}
	}
	tell("   0.000000 s1   -- start 1", "   0.000000 s2   -- start 1", "   0.000000 s3   -- is absent",
		"   0.100000 s1   INFO raft role changed leader=none term=1 role=candidate")
	expect("s1", Starts, NoneLeads, OtherDown)
	tell("   0.200000 s1   INFO raft role changed leader=1 term=1 role=leader",
		"   0.200000 s2   INFO raft role changed leader=1 term=1 role=follower",
		"   0.200000      -- kill: s3, s1, for 1s, 1 of 1000 (s3)")
	expect("s1", Leads, OtherDown)
	expect("s2", Follows, OtherDown)
	tell("   0.300000 s3   -- start 1", "   0.300000 s3   WARN member quarantined: no data, waiting for admission",
		"   0.400000 s1   INFO sending a snapshot peer=3 index=8")
	expect("s1", Leads, Sends, SnapshotOut)
	expect("s3", Starts, Emptied, Receives, SnapshotOut)
	tell("   0.500000 s1   INFO snapshot delivered peer=3 index=8", "   0.500000 s3   INFO member admitted",
		"   0.500000 s3   INFO raft role changed leader=1 term=1 role=follower", "   0.500000 s2   -- disk hangs")
	expect("s3", Follows, OtherIll)
	tell("   0.600000 s1   -- crash, of the power: true",
		"   0.700000 s3   INFO raft role changed leader=none term=1 role=follower")
	expect("s1", Down, NoneLeads, OtherIll)
	expect("s3", Leaderless, NoneLeads, OtherDown, OtherIll)
	tell("   0.800000 s2   -- disk is mended")
	expect("s2", Follows, NoneLeads, OtherDown)
}

// TestMet: what is met is added up, and shown with each state.
func TestMet(t *testing.T) {
	m := Met{}
	m.add(Met{Kill: {Leads: 2}})
	m.add(Met{Kill: {Leads: 1, Starts: 4}, Stop: {}})
	if m[Kill][Leads] != 3 || m[Kill][Starts] != 4 {
		t.Errorf("the sum is %v", m)
	}
	text := m.String()
	for _, state := range states {
		if !strings.Contains(text, string(state)) {
			t.Errorf("%q is not in the table", state)
		}
	}
	if missing := m.unmet(); !slices.Contains(missing, "kill: follows") || slices.Contains(missing, "kill: leads") {
		t.Errorf("not met: %v", missing)
	}
	for i := range signs {
		if s := &signs[i]; s.begins != "" && !slices.Contains(states, s.begins) {
			t.Errorf("%q begins %q, which is no state", s.text, s.begins)
		}
	}
}
