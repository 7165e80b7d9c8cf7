package warning_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/quorum/clock"
	"zkd/quorum/warning"
)

// logged returns a limiter on a clock that stands still, and what it has written.
func logged() (*warning.Limiter, *clock.Manual, *bytes.Buffer) {
	var text bytes.Buffer
	now := clock.NewManual(time.Unix(1_000_000, 0))
	return warning.NewLimiter(slog.New(slog.NewTextHandler(&text, nil)), now), now, &text
}

func TestAFloodOfWarningsIsCounted(t *testing.T) {
	limiter, now, text := logged()
	for range 25 {
		limiter.Warn("bad", slog.Int("n", 1))
	}
	if got := strings.Count(text.String(), "msg=bad"); got != 10 {
		t.Fatalf("%d warnings are written at once, want 10", got)
	}
	if strings.Contains(text.String(), "omitted") {
		t.Errorf("nothing was left out before these:\n%s", text)
	}
	text.Reset()
	now.Advance(time.Second)
	limiter.Warn("bad", slog.Int("n", 2))
	limiter.Warn("bad", slog.Int("n", 3))
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "n=2 omitted=15") {
		t.Errorf("a second later:\n%s", got)
	}
	text.Reset()
	now.Advance(time.Minute)
	limiter.Warn("bad")
	limiter.Warn("bad")
	if got := text.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "omitted=1") != 1 {
		t.Errorf("a minute later:\n%s", got)
	}
}

func TestManyGoroutinesLoseNoCount(t *testing.T) {
	limiter, now, text := logged()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				limiter.Warn("bad")
			}
		})
	}
	all.Wait()
	text.Reset()
	now.Advance(time.Second)
	limiter.Warn("last")
	if !strings.Contains(text.String(), "omitted=790") {
		t.Errorf("800 warnings, of which 10 were written, and then:\n%s", text)
	}
}
