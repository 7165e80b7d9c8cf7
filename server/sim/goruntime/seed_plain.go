//go:build !zkd_repeat

package goruntime

import "time"

// Repeats is true if the program was built with the overlay: what runs under a seed runs again in the same way.
const Repeats = false

// Seed does nothing in a program that was built without the overlay.
func Seed(uint64) {}

// Join does nothing in a program that was built without the overlay, as Pause and Resume.
func Join(int) {}

// Group is none here.
func Group() (of, pauses int) { return 0, 0 }

// Pause does nothing here.
func Pause(int) {}

// Resume does nothing here.
func Resume(int) {}

// WatchLocks does nothing here.
func WatchLocks(time.Duration) {}

// LongWaits are none here.
func LongWaits() ([]Wait, int) { return nil, 0 }
