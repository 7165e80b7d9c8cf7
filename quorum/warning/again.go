package warning

import "time"

// What goes on is told again a minute after it was told, then two minutes later, then four, and so on up to an hour.
const (
	againFirst = time.Minute
	AgainMost  = time.Hour
)

// NextAgain returns how long after it is told again something that goes on is told once more. again is the wait that is
// over, or 0 when it is told for the first time.
func NextAgain(again time.Duration) time.Duration { return min(max(2*again, againFirst), AgainMost) }
