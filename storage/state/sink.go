package state

import "zkd/storage/apply"

// Sink takes the results of an entry while it is published: no reader can see the entry's effects before the last
// call for it has returned. It is called on the apply goroutine, under the machine's lock: it must not block, nor
// open a View.
type Sink interface {
	// Result is called once for each proposal, in order; n counts them from 0. r and all it points to are valid only
	// during the call.
	Result(origin, batch uint64, n int, r *apply.Result)
}

// Decider is a Sink that has something to do between the outcome of an entry and the moment at which it may become
// durable, as to make something of its own durable first.
type Decider interface {
	Sink
	// Decided is called once for each entry, on the apply goroutine, before anything of it is written or visible, and
	// before Result. No lock is held: it may wait, and holds up Apply alone. results are valid only during the call. An
	// error is final.
	Decided(results []apply.Result) error
}

// ReplaceObserver is a Sink that must know when a load replaces the whole state, as if another server's had been
// installed.
type ReplaceObserver interface {
	Sink
	// Replacing is called on the apply goroutine before the state is replaced, and before the result of the proposal
	// that does it; Replaced after Views show the new one. Neither may block.
	Replacing()
	Replaced()
}
