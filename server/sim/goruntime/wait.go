package goruntime

import "time"

// Wait is how long a goroutine has waited for a lock.
type Wait struct {
	Group  int       // of the goroutine; 0: none
	Began  time.Time // in the bubble's time
	Waited time.Duration
	Stack  []string // functions, the innermost first
}
