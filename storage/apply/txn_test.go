package apply

import (
	"fmt"
	"testing"

	"zkd/storage/entry"
)

// TestKnownOperationsHaveHandlers compares what proposals say of themselves with what evaluates them.
func TestKnownOperationsHaveHandlers(t *testing.T) {
	for op := lowestOp - 100; op < 200; op++ {
		p := entry.Proposal{Op: op}
		if knows, evaluates := p.Level() != 0, proposalHandler(op) != nil; knows != evaluates {
			t.Errorf("operation %d: known %t, evaluated %t", op, knows, evaluates)
		}
	}
}

// TestSequentialNames reads the counter as a signed number, with its sign among the ten digits.
func TestSequentialNames(t *testing.T) {
	for counter, want := range map[int32]string{ // any order: independent cases
		0: "0000000000", 7: "0000000007", 1<<31 - 1: "2147483647", -1 << 31: "-2147483648",
		-1: "-000000001", -123456789: "-123456789",
	} {
		var txn Txn
		if got := txn.sequentialName("/x", counter); got != "/x"+want || got != fmt.Sprintf("/x%010d", counter) {
			t.Errorf("%d: %s", counter, got)
		}
	}
}
