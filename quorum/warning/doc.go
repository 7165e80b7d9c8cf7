// Package warning keeps warnings from filling the log: a Limiter those that anybody who reaches a port can cause,
// Repeated those that many run into as long as something goes on, NextAgain what goes on by itself.
//
// It is here, below the server and beside the transport, because both have a port that strangers reach. It owns the
// count of what was left out; it must never know what a warning is about. A Limiter and a Repeated may be used by any
// goroutine, never block, and lose no count: the next warning that is written says how many were left out before it.
package warning
