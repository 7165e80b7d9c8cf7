package transport

import "context"

// Standing is what a server has to do with an ensemble that is not founded yet. The numbers are on the wire.
type Standing uint8

// How a server stands.
const (
	// Unsaid is that of a program that does not say.
	Unsaid Standing = iota
	// Idle: it takes part in no bootstrap: it belongs to an ensemble, or waits.
	Idle
	// Bootstrapping: it takes part in the bootstrap of an ensemble of servers without data.
	Bootstrapping
	// WithData: it has data, and bootstraps an ensemble with it; ClusterID is that ensemble's already.
	WithData
	// GaveWay: it has no data, and takes part in no bootstrap as another server has some.
	GaveWay
)

// standing says how this server stands.
func (t *Transport) standing() Standing {
	if t.opts.Standing == nil {
		return Idle
	}
	return t.opts.Standing()
}

// bootstrapConflict returns what speaks against a connection with a server, by what it says of the bootstrap.
func (t *Transport) bootstrapConflict(server uint64, cluster [16]byte, standing Standing) string {
	if t.opts.BootstrapConflict == nil {
		return ""
	}
	return t.opts.BootstrapConflict(server, cluster, standing)
}

// Answer begins to accept before Start: questions are answered that have to do with the bootstrap on data, which both
// sides must know of before either is a part of anything. All else waits for Start.
func (t *Transport) Answer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acceptLocked()
}

// acceptLocked begins to accept at all listeners.
func (t *Transport) acceptLocked() {
	if t.closed || t.accepting {
		return
	}
	t.accepting = true
	for _, l := range t.listeners {
		t.goLocked(func() { t.accept(l) })
	}
}

// await waits until this server can deal with what a hello asks for.
func (t *Transport) await(ctx context.Context, h *hello) error {
	own := t.standing()
	if h.purpose == forCluster && (own == WithData || h.standing == WithData) ||
		own == WithData && h.standing == Bootstrapping {
		return nil
	}
	select {
	case <-t.begun:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isBegun tells whether Start was called.
func (t *Transport) isBegun() bool {
	select {
	case <-t.begun:
		return true
	default:
		return false
	}
}
