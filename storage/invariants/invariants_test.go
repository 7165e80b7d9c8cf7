package invariants

import (
	"errors"
	"log/slog"
	"testing"
)

func TestViolatedPanicsWithTheValues(t *testing.T) {
	defer func() {
		err, ok := recover().(error)
		if !ok {
			t.Fatal("Violated returned, or panicked with something that is no error")
		}
		var violation Violation
		if !errors.As(err, &violation) {
			t.Fatalf("panic value is %T, want Violation", err)
		}
		const want = "invariant violated: index goes backwards: last=7 next=5"
		if got := err.Error(); got != want {
			t.Errorf("message\n got %q\nwant %q", got, want)
		}
	}()
	Violated("index goes backwards", slog.Uint64("last", 7), slog.Uint64("next", 5))
}

func TestViolationWithoutValues(t *testing.T) {
	const want = "invariant violated: a loop has two owners"
	if got := (Violation{Message: "a loop has two owners"}).Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
