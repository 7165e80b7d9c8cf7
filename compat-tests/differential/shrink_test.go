package differential_test

import (
	"errors"
	"os"
	"strconv"
	"testing"
	"time"
)

// Bounds of the search for a shorter script. The figures are guesses: a run of a script takes about 50 ms.
const (
	shrinkRunsMax = 600
	shrinkWithin  = 90 * time.Second
)

// TestRandom compares the servers over random scripts: ZKD_DIFF_SCRIPTS of them (20), each of about ZKD_DIFF_OPS
// requests (200), the first one of the seed ZKD_DIFF_SEED (1). It goes on after a difference, up to
// ZKD_DIFF_FAILURES (1) of them.
func TestRandom(t *testing.T) {
	scripts, seed := setting(t, "ZKD_DIFF_SCRIPTS", 20), setting(t, "ZKD_DIFF_SEED", 1)
	ops, failures := setting(t, "ZKD_DIFF_OPS", 200), setting(t, "ZKD_DIFF_FAILURES", 1)
	p := startPair(t, nil, nil)
	began := time.Now()
	for i := range scripts {
		if failures == 0 {
			break
		}
		lines := generate(uint64(seed+i), ops)
		both, err := p.run(lines)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// ZooKeeper has been seen not to close, or not to answer, a connection in time, once in some thousand
			// scripts. A server that does so again, over the same script, is what the script shows.
			t.Logf("seed %d: once more on new servers: %v", seed+i, err)
			p = startPair(t, nil, nil)
			both, err = p.run(lines)
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed+i, err)
		}
		found := both.differences()
		if len(found) == 0 {
			continue
		}
		again, err := p.compare(lines)
		if err != nil {
			t.Fatalf("seed %d: %v", seed+i, err)
		}
		if len(again) == 0 && p.steady(t, both) {
			t.Logf("seed %d: the real server differed once, a race of its own, first %v", seed+i, found[0])
			p = startPair(t, nil, nil) // what it has not cleaned up would be a difference of the next scripts
			continue
		}
		if failures--; len(again) == 0 { // what was seen is all there is to tell
			t.Errorf("seed %d: the servers differed once over this script:\n%s", seed+i, format(lines))
			for _, d := range found[:min(len(found), reportedMax)] {
				t.Errorf("seed %d: differed %v", seed+i, d)
			}
			continue
		}
		short, d := p.shrink(lines, again[0])
		t.Errorf("seed %d: the servers differ over this script:\n%s--- differ %v", seed+i, format(short), d)
	}
	t.Logf("%d scripts of %d requests in %v", scripts, ops, time.Since(began).Round(time.Millisecond))
}

// steadyRuns is how often a script is run again to tell whose race a difference was.
const steadyRuns = 10

// steady reports whether the server under test answers what it has answered each time that the script is run again,
// and the real server agrees each time.
func (p *pair) steady(t *testing.T, first *transcripts) bool {
	t.Helper()
	for range steadyRuns {
		again, err := p.run(first.lines)
		if err != nil {
			t.Fatalf("run a script again: %v", err)
		}
		if len(again.differences()) > 0 || again.answers() != first.answers() {
			return false
		}
	}
	return true
}

// TestSteady shows that a script that is run again is answered as before, and another one otherwise: what steady relies
// on.
func TestSteady(t *testing.T) {
	p := startPair(t, nil, nil)
	first, err := p.run(generate(1, 100))
	if err != nil {
		t.Fatal(err)
	}
	if !p.steady(t, first) {
		t.Error("a script is answered otherwise when it is run again")
	}
	first.lines = generate(2, 100)
	if p.steady(t, first) {
		t.Error("another script is answered as the first")
	}
}

func setting(t *testing.T, name string, standard int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q: want a number", name, text)
	}
	return n
}

// shrink returns a shorter script that still differs, and how: it leaves out ever smaller runs of lines, and then
// operations of multis, as long as a difference remains.
func (p *pair) shrink(lines []line, d *difference) ([]line, *difference) {
	deadline := time.Now().Add(shrinkWithin)
	runs := 0
	differs := func(candidate []line) bool {
		if runs++; runs > shrinkRunsMax || time.Now().After(deadline) {
			return false
		}
		found, err := p.compare(candidate)
		if err != nil || len(found) == 0 {
			return false
		}
		d = found[0]
		return true
	}
	for size := len(lines) / 2; size > 0; {
		removed := false
		for at := len(lines) - size; at >= 0; at -= size {
			if candidate := without(lines, at, size); differs(candidate) {
				lines, removed = candidate, true
				at = min(at, len(lines))
			}
		}
		if !removed || size > 1 {
			size /= 2
		}
	}
	for i := range lines {
		for at := len(lines[i].ops) - 1; at >= 0; at-- {
			candidate := without(lines, 0, 0)
			candidate[i].ops = append(append([]line(nil), lines[i].ops[:at]...), lines[i].ops[at+1:]...)
			if differs(candidate) {
				lines = candidate
			}
		}
		if candidate := without(lines, 0, 0); candidate[i].joined {
			candidate[i].joined = false
			if differs(candidate) {
				lines = candidate
			}
		}
	}
	return lines, d
}

// without returns a copy of lines without n of them; a line that was joined to one of another connection, or to
// nothing, stands alone.
func without(lines []line, at, n int) []line {
	var kept []line
	kept = append(append(kept, lines[:at]...), lines[at+n:]...)
	for i := range kept {
		if kept[i].joined && (i == 0 || kept[i-1].conn != kept[i].conn || alone(kept[i-1])) {
			kept[i].joined = false
		}
	}
	return kept
}

// alone reports whether a line cannot be joined with those after it. For setACL that is because of ZooKeeper: until it
// is applied, the checks of later requests use the old list (PrepRequestProcessor.pRequest2Txn does not put the new
// one into its ChangeRecord), so that what they answer is a matter of speed.
func alone(l line) bool {
	switch l.verb {
	case "setACL", "open", "dial", "drop", "close", "await", "4lw", "bytes", "auth":
		return true
	}
	return false
}

// TestTranscript prints the transcript of the real server for a seed, with ZKD_DIFF_PRINT=seed.
func TestTranscript(t *testing.T) {
	if os.Getenv("ZKD_DIFF_PRINT") == "" {
		t.Skip("ZKD_DIFF_PRINT is not set")
	}
	p := startPair(t, nil, nil)
	lines := generate(uint64(setting(t, "ZKD_DIFF_PRINT", 1)), setting(t, "ZKD_DIFF_OPS", 200))
	steps, err := run(p.real.Addr, "/print", lines)
	for _, s := range steps {
		for _, l := range s.lines {
			t.Log(l)
		}
		for _, a := range s.answers {
			t.Log("   ", a)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
