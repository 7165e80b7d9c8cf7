package sim

import (
	"strings"
	"testing"
)

// TestStoryOfThisLife: what a server has logged last counts until it is killed or started again.
func TestStoryOfThisLife(t *testing.T) {
	w := &World{Story: newStory(nil)}
	one, other := &Server{w: w, name: "s1"}, &Server{w: w, name: "s11"}
	one.tell("start 1")
	for _, role := range []string{"follower", "leader"} {
		w.Story.Tell("s1", "INFO raft role changed role=%s", role)
	}
	w.Story.Tell("s1", "INFO peer left peer=2")
	one.tell("ended: <nil>") // the life before
	got := one.LastLogged("raft role changed")
	if !strings.HasSuffix(got, "INFO raft role changed role=leader") {
		t.Errorf("the last line is %q", got)
	}
	if got := other.LastLogged("raft role changed"); got != "" {
		t.Errorf("another server has logged %q", got)
	}
	for _, end := range []string{"crash, of the power: true", "start 2"} {
		w.Story.Tell("s1", "INFO raft role changed role=leader")
		other.tell("%s", end)
		if got := one.LastLogged("raft role changed"); got == "" {
			t.Errorf("%q of another server ends a life", end)
		}
		one.tell("%s", end)
		if got := one.LastLogged("raft role changed"); got != "" {
			t.Errorf("after %q it has logged %q", end, got)
		}
	}
}
