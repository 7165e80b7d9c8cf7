package server

import (
	"log/slog"
	"strings"
	"testing"
)

// TestClientsThatAreTurnedAwayAreALine: without a leader each client comes again and again, and that is one event.
func TestClientsThatAreTurnedAwayAreALine(t *testing.T) {
	log := &logged{}
	g := startGroup(t, groupOptions{set: func(_ uint64, o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	}})
	for range 5 {
		g.at(1).wantTurnedAway(t, anew())
	}
	if n := strings.Count(log.text(), "rejected client: not synced with a leader"); n != 1 {
		t.Errorf("%d lines of five clients:\n%s", n, log.text())
	}
}
