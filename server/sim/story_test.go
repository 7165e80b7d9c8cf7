package sim

import (
	"log/slog"
	"strings"
	"testing"
)

// TestStoryOfThisLife: what a server has logged last counts until it is killed. What the life before has to say then
// does not.
func TestStoryOfThisLife(t *testing.T) {
	const message = "raft role changed"
	s := &Server{name: "s1"}
	story := newStory(nil)
	begin := func() *slog.Logger {
		s.life = new(life)
		return story.logger(s.name, slog.LevelInfo, &s.life.logged)
	}
	logged := func(role string) {
		t.Helper()
		if got := s.LastLogged(message); !strings.HasSuffix(got, role) || (role == "") != (got == "") {
			t.Errorf("it has logged %q last, want %q", got, role)
		}
	}
	logged("")
	first := begin()
	logged("")
	first.Info(message, "role", "follower")
	first.Info(message, "role", "leader")
	first.Info("peer left", "peer", 2)
	logged("INFO raft role changed role=leader")
	s.life = nil // it was killed
	first.Info(message, "role", "none")
	logged("")
	second := begin()
	logged("")
	second.Info(message, "role", "leader")
	first.Info(message, "role", "follower")
	logged("INFO raft role changed role=leader")
}
