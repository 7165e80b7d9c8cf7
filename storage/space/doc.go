// Package space watches how much room the disks of a server have, and keeps a reserve on them that is given back in
// need (docs/decisions/0025-a-reserve-and-a-low-space-state.md).
//
// A Guard owns the reserve files, one on each file system that it watches, and judges how low a server is. It knows
// nothing of what fills the disks, nor of what is done about it: whoever asks for the Level decides.
//
// Invariants: a reserve is allocated, not sparse; it is removed before a write fails for want of room that it takes,
// and made anew only when the disks are far from full; a Level is left at more room than it is entered at.
package space
