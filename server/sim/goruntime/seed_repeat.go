//go:build zkd_repeat

package goruntime

import _ "unsafe" // for go:linkname

// Repeats is true if the program was built with the overlay: what runs under a seed runs again in the same way.
const Repeats = true

// Seed has the runtime draw from a seed from now on.
func Seed(seed uint64) { reseed(seed) }

// Join has this goroutine, and all that it and they begin, belong to a group, from 1 to GroupsMax. Functions of
// time.AfterFunc belong to none.
func Join(group int) { join(uint32(group)) } //nolint:gosec // it is small

// Pause has no goroutine of a group run. Who holds a lock goes on holding it; time goes on.
func Pause(group int) { pause(uint32(group)) } //nolint:gosec // it is small

// Resume ends a pause.
func Resume(group int) { resume(uint32(group)) } //nolint:gosec // it is small

//go:linkname reseed
func reseed(seed uint64)

//go:linkname join
func join(group uint32)

//go:linkname pause
func pause(group uint32)

//go:linkname resume
func resume(group uint32)
