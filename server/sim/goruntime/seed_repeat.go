//go:build zkd_repeat

package goruntime

import (
	"runtime"
	"time"
	_ "unsafe" // for go:linkname
)

// Repeats is true if the program was built with the overlay: what runs under a seed runs again in the same way.
const Repeats = true

// Seed has the runtime draw from a seed from now on.
func Seed(seed uint64) { reseed(seed) }

// Join has this goroutine, and all that it and they begin, belong to a group, from 1 to GroupsMax. Functions of
// time.AfterFunc belong to none.
func Join(group int) { join(uint32(group)) } //nolint:gosec // it is small

// Group is the group of this goroutine, 0 if it belongs to none, and how often that was paused or resumed so far.
func Group() (of, pauses int) {
	g, n := group()
	return int(g), int(n)
}

// Pause has no goroutine of a group run. Who holds a lock goes on holding it; time goes on.
func Pause(group int) { pause(uint32(group)) } //nolint:gosec // it is small

// Resume ends a pause.
func Resume(group int) { resume(uint32(group)) } //nolint:gosec // it is small

// WatchLocks keeps, from now on, each wait for a lock (sync.Mutex, sync.RWMutex) that takes so long in the bubble's
// time. What a group that was paused meanwhile has waited for does not count.
func WatchLocks(long time.Duration) { watchWaits(int64(long)) }

// LongWaits are the waits that were kept, the first ones, and how many there were in all.
func LongWaits() (waits []Wait, count int) {
	for {
		var stack [24]uintptr
		group, began, waited, depth, count := wait(len(waits), stack[:])
		if depth == 0 {
			return waits, count
		}
		w := Wait{Group: int(group), Began: time.Unix(0, began), Waited: time.Duration(waited)}
		frames := runtime.CallersFrames(stack[:depth])
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			w.Stack = append(w.Stack, f.Function)
		}
		waits = append(waits, w)
	}
}

//go:linkname watchWaits
func watchWaits(long int64)

//go:linkname wait
func wait(i int, stack []uintptr) (group uint32, began, waited int64, depth, count int)

//go:linkname reseed
func reseed(seed uint64)

//go:linkname join
func join(group uint32)

//go:linkname group
func group() (group, pauses uint32)

//go:linkname pause
func pause(group uint32)

//go:linkname resume
func resume(group uint32)
