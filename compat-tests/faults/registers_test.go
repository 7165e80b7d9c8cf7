package faults

import (
	"fmt"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestDecideEnds: a history whose orders are too many to try all is undecided after so many steps, and not for ever;
// one that has an order is decided in few.
func TestDecideEnds(t *testing.T) {
	var events []porcupine.Operation
	const writes = 40 // of which any subset may have happened, in any order
	for i := range writes {
		op := Op{Client: i, Kind: Write, Path: reg, Value: fmt.Sprint(i), Call: int64(i), Ret: never}
		events = append(events, porcupine.Operation{ClientId: i, Input: op, Call: op.Call, Return: op.Ret})
	}
	read := func(value string) porcupine.Operation {
		op := Op{Client: writes, Kind: SyncRead, Path: reg, Value: value, Version: writes - 1, Call: writes,
			Ret: writes + 1, Outcome: Done}
		return porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: op.Ret}
	}
	const steps = 100_000
	if result, _ := decide(append(events, read("nobody's")), steps); result != porcupine.Unknown {
		t.Errorf("a value that nobody has written: %v", result)
	}
	if result, _ := decide(append(events, read(fmt.Sprint(writes-2))), steps); result != porcupine.Ok {
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
	for _, op := range settle(ops, ops) {
		kept = append(kept, op.Value)
	}
	if !slices.Equal(kept, []string{"a", "done", "b", "s"}) {
		t.Errorf("kept are %v", kept)
	}
	failed := func(format string, args ...any) { t.Errorf(format, args...) }
	CheckRegisters(ops, true, failed, func(porcupine.LinearizationInfo) {})
}
