package transport

import (
	"bytes"
	"sync"
)

// inOrderBytesMax is how much may wait while a frame is dealt with, before the reader of the stream waits, too. Less
// than a large frame: one of those may wait, and nothing else beside it. A guess: small frames of a busy second.
const inOrderBytesMax = 8 << 20

// inOrder hands on the large frames of one incoming stream, and those that come behind them, on a goroutine that lives
// while there are any: to take a large frame in takes time, which others of the stream need not wait for.
type inOrder struct {
	peer *peer
	runs sync.WaitGroup
	room sync.Cond // with mu; told when something was handed on

	mu struct {
		sync.Mutex
		frames  []orderedFrame
		bytes   int // of frames
		running bool
	}
}

// orderedFrame is a frame that waits.
type orderedFrame struct {
	kind uint8
	body []byte
}

// newInOrder returns one for a stream of p.
func newInOrder(p *peer) *inOrder {
	o := &inOrder{peer: p}
	o.room.L = &o.mu
	return o
}

// idle tells whether all has been handed on. If so, that stays until the next put.
func (o *inOrder) idle() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.mu.running
}

// put has a frame handed on, and waits if too much of that waits. body is kept if it is owned.
func (o *inOrder) put(kind uint8, body []byte, owned bool) {
	if !owned {
		body = bytes.Clone(body)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.mu.bytes > 0 && o.mu.bytes+len(body) > inOrderBytesMax {
		o.room.Wait()
	}
	o.mu.frames = append(o.mu.frames, orderedFrame{kind, body})
	o.mu.bytes += len(body)
	if !o.mu.running {
		o.mu.running = true
		o.runs.Go(o.run)
	}
}

// run hands on what there is.
func (o *inOrder) run() {
	for {
		f, more := o.take()
		if !more {
			return
		}
		if !o.peer.isEnded() {
			o.peer.transport.handler.Receive(o.peer.id, f.kind, f.body)
		}
	}
}

// take returns the next frame; without one, run ends.
func (o *inOrder) take() (f orderedFrame, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.room.Broadcast()
	if len(o.mu.frames) == 0 {
		o.mu.running = false
		return orderedFrame{}, false
	}
	f = o.mu.frames[0]
	o.mu.frames[0] = orderedFrame{}
	o.mu.frames = o.mu.frames[1:]
	o.mu.bytes -= len(f.body)
	return f, true
}

// end waits until all has been handed on; the reader calls it, and puts nothing after it.
func (o *inOrder) end() { o.runs.Wait() }
