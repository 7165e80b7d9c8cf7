package warning_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"zkd/quorum/clock"
	"zkd/quorum/warning"
)

// TestWhatGoesOnIsToldRarely: when it begins, after a minute, two, four, and anew when it was over.
func TestWhatGoesOnIsToldRarely(t *testing.T) {
	var text bytes.Buffer
	now := clock.NewManual(time.Unix(1_000_000, 0))
	repeated := warning.NewRepeated(slog.New(slog.NewTextHandler(&text, nil)), now)
	told := 0
	for minute := range 9 {
		for range 60 {
			repeated.Warn("bad", slog.Int("minute", minute))
			now.Advance(time.Second)
		}
		if minute == 0 || minute == 1 || minute == 3 || minute == 7 {
			told++
		}
		if n := strings.Count(text.String(), "msg=bad"); n != told {
			t.Fatalf("%d lines after %d minutes, want %d:\n%s", n, minute+1, told, text.String())
		}
	}
	if !strings.Contains(text.String(), "minute=0\n") || !strings.Contains(text.String(), "minute=1 omitted=59\n") {
		t.Errorf("what was left out is not counted:\n%s", text.String())
	}
	now.Advance(time.Minute)
	text.Reset()
	repeated.Warn("bad")
	if !strings.Contains(text.String(), "msg=bad omitted=119\n") {
		t.Errorf("it begins anew:\n%s", text.String())
	}
}
