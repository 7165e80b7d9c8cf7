package faults

import (
	"fmt"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"zkd/jute"
)

// TestDecideEnds: a history whose orders are too many to try all is undecided after so many steps, and not for ever;
// one that has an order is decided in few.
func TestDecideEnds(t *testing.T) {
	var ops []Op
	const writes = 40 // of which any subset may have happened, in any order
	for i := range writes {
		ops = append(ops, Op{Client: i, Kind: Write, Path: reg, Value: fmt.Sprint(i), Call: int64(i), Ret: never})
	}
	thenRead := func(value string) []porcupine.Operation {
		return eventsOf(append(ops, Op{Client: writes, Kind: SyncRead, Path: reg, Value: value, Version: writes - 1,
			Call: writes, Ret: writes + 1, Outcome: Done}))
	}
	const steps = 100_000
	if result, _ := decide(thenRead("nobody's"), steps); result != porcupine.Unknown {
		t.Errorf("a value that nobody has written: %v", result)
	}
	if result, _ := decide(thenRead(fmt.Sprint(writes-2)), steps); result != porcupine.Ok {
		t.Errorf("a value that the last but one has written: %v", result)
	}
}

// TestSettleLeavesOutWhatNobodyHasSeen: of writes that nobody has seen the first are kept, one for each version that
// nobody has seen either, and one behind the last; with those there is an order, as a refusal shows that needs it.
func TestSettleLeavesOutWhatNobodyHasSeen(t *testing.T) {
	ops := []Op{
		{Kind: Write, Path: reg, Value: "c", Call: 30, Ret: never},
		{Kind: Write, Path: reg, Value: "a", Call: 10, Ret: never},
		{Kind: Write, Path: reg, Value: "done", Call: 11, Ret: 12, Outcome: Done, Version: 2},
		{Kind: Write, Path: reg, Value: "b", Call: 20, Ret: never},
		{Kind: Swap, Path: reg, Value: "s", Expected: 2, Call: 40, Ret: 41, Outcome: Refused},
	}
	var kept []string
	settled, unseen := settle(ops, ops)
	for _, op := range settled {
		kept = append(kept, op.Value)
	}
	if !slices.Equal(kept, []string{"a", "done", "b", "s"}) || !slices.Equal(unseen, []gap{{1, 12}}) {
		t.Errorf("kept are %v, unseen %v", kept, unseen)
	}
	failed := func(format string, args ...any) { t.Errorf(format, args...) }
	CheckRegisters(ops, true, failed, func(porcupine.LinearizationInfo) {})
}

// TestManyUnseenVersions: of the versions of a register nobody has seen every other one. Half of those can be what a
// swap of the version before has left, and there are just as many writes as the others need.
func TestManyUnseenVersions(t *testing.T) {
	const gaps = 40
	var ops []Op
	at := func(n int) int64 { return int64(100 * (n + 1)) }
	for n := range jute.Version(gaps) {
		now := at(int(n))
		ops = append(ops, Op{Kind: Write, Path: reg, Value: fmt.Sprint("seen ", n), Call: now, Ret: now + 1,
			Outcome: Done, Version: 2*n + 1})
		if n%2 == 0 {
			ops = append(ops,
				Op{Kind: Swap, Path: reg, Value: fmt.Sprint("late ", n), Call: at(gaps), Ret: never, Expected: 2*n + 1},
				Op{Kind: Swap, Path: reg, Value: fmt.Sprint("swap ", n), Call: now + 2, Ret: never, Expected: 2*n + 1},
				Op{Kind: Swap, Path: reg, Value: fmt.Sprint("none ", n), Call: now + 2, Ret: never, Expected: 2 * n})
		} else {
			ops = append(ops, Op{Kind: Write, Path: reg, Value: fmt.Sprint("write ", n), Call: int64(n), Ret: never})
		}
	}
	ops = append(ops, Op{Kind: Write, Path: reg, Value: "last", Call: at(gaps), Ret: at(gaps) + 1, Outcome: Done,
		Version: 2*gaps + 1})
	for n := range ops {
		ops[n].Client = n
	}
	failed := func(format string, args ...any) { t.Errorf(format, args...) }
	CheckRegisters(ops, true, failed, func(porcupine.LinearizationInfo) {})

	failures := 0
	failed = func(string, ...any) { failures++ }
	less := slices.DeleteFunc(ops[:8], func(op Op) bool { return op.Value == "swap 0" })
	CheckRegisters(less, true, failed, func(porcupine.LinearizationInfo) {})
	if failures != 1 {
		t.Errorf("%d failures without a swap that must have happened, want one", failures)
	}
}
