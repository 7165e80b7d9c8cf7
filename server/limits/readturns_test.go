package limits

import (
	"testing"

	"zkd/storage/state"
)

// TestLargeReadsGiveTheProcessorAway: once in so many keys, and never while a read is a small one.
func TestLargeReadsGiveTheProcessorAway(t *testing.T) {
	var turns ReadTurns
	turns.Init(make(chan struct{}))
	yields := 0
	turns.yield = func() { yields++ }
	scan := turns.Scan(nil, nil)
	pace := func(keys int) {
		for range keys / state.ScanPace {
			if !scan.Pace() {
				t.Fatal("a read was stopped that nobody has ended")
			}
		}
	}
	pace(scanTurnKeys - state.ScanPace)
	if yields != 0 || turns.Taken() != 0 {
		t.Errorf("a small read has yielded %d times and taken %d turns", yields, turns.Taken())
	}
	pace(state.ScanPace + 4*scanYieldKeys)
	if yields != 5 || turns.Taken() != 1 {
		t.Errorf("a large read has yielded %d times and taken %d turns, want 5 and 1", yields, turns.Taken())
	}
	scan.End()
	if len(turns.turns) != 0 {
		t.Error("the turn was not given back")
	}
}

// TestShortReadsNeedNoTurn: the zero Scan is that of a read too short to pause, however much a turn is for.
func TestShortReadsNeedNoTurn(t *testing.T) {
	var scan Scan
	if !scan.Expect(2 * scanTurnKeys) {
		t.Error("a read that was not made ready for turns has to wait for one")
	}
	scan.End()
}
