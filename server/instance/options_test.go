package instance

import (
	"runtime"
	"testing"
)

// TestHandshakesLeaveProcessors: half of the processors that there are, however many threads run Go code on them
// (docs/decisions/0017).
func TestHandshakesLeaveProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(8 * runtime.NumCPU())
	defer runtime.GOMAXPROCS(before)
	if got, most := handshakesComputing(), max(1, runtime.NumCPU()/2); got != most {
		t.Errorf("%d compute at once, want %d of %d processors", got, most, runtime.NumCPU())
	}
	runtime.GOMAXPROCS(1)
	if got := handshakesComputing(); got != 1 {
		t.Errorf("%d compute at once with one thread", got)
	}
}
