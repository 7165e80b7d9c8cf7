// Package goruntime makes the Go runtime repeat itself: a program that is built with its overlay runs its goroutines in
// an order that is drawn from a seed, one at a time, and sees no time but that of testing/synctest.
//
// It owns what is changed in the runtime, as substitutions in the sources of the toolchain that builds (patches.go). It
// must never know what runs on it. A release of Go whose sources read otherwise is refused by Overlay, with the place
// that was not found; nothing is built for it.
//
// What is changed, and why:
//
//   - Random numbers of the runtime (select, maps, the hash of keys, math/rand without a seed) come from a constant at
//     the start, and from the seed as soon as Seed is called.
//   - There is no monitor thread: nobody is interrupted, and nobody is put last because a clock says so. A goroutine
//     runs until it waits. In a quarter of the cases another than the first of the queue runs next, which is drawn.
//   - Who waits for a sync.Mutex or sync.RWMutex counts as waiting, as one does who waits for a channel: a lock may be
//     held by somebody who waits for a disk that answers later, and the time of the bubble goes on to when it does.
//   - How many threads there are does not depend on how fast they are: each takes memory, and moves what comes after.
//   - Goroutines belong to groups, which can be paused, as the processes of a machine.
//   - The clock without a date (runtime.nanotime, which others link to) is the bubble's for goroutines in a bubble.
//
// What a program has to do itself: run with GOMAXPROCS=1 and GOGC=off, for what the collector leaves where differs from
// one time to the next, and addresses are what maps are ordered by; sample no allocations, which draws; leave files and
// sockets of the system alone while the order matters; and take what crypto/rand draws from testing/cryptotest.
package goruntime
