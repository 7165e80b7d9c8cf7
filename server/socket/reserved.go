package socket

import (
	"net"
	"slices"
	"sync"
)

// piece is a part of what a connection has to send; sent bytes of it are on their way already.
type piece struct {
	buf    *[]byte
	sent   int
	shared bool // others have the buffer, too, and nobody changes it
}

// give gives the buffer back.
func (p *piece) give() {
	if !p.shared {
		GiveBuffer(p.buf)
	}
}

// growsLocked reports whether short replies may be appended to p.
func (p *piece) growsLocked() bool { return !p.shared && len(*p.buf) < FlushAtBytes }

// sharedBytes is from how many bytes on frames of several connections are not copied for each. A guess: some hundred
// events.
const sharedBytes = 4 << 10

// shareLocked has frames written that others may have, too, behind all that is there. Nothing may be reserved.
func (o *Output) shareLocked(frames []byte) {
	o.aheadBufferLocked()
	o.ahead = append(o.ahead, piece{buf: &frames, shared: true})
	o.aheadBytes += len(frames)
}

// aheadBufferLocked begins another buffer behind the one that is appended to.
func (o *Output) aheadBufferLocked() {
	if o.buf != nil {
		o.ahead = append(o.ahead, piece{buf: o.buf})
		o.aheadBytes += len(*o.buf)
		o.buf = nil
	}
}

// rest is what is still to be sent.
func (p *piece) rest() []byte { return (*p.buf)[p.sent:] }

// writableLocked reports whether there is something that may be written.
func (o *Output) writableLocked() bool { return len(o.ahead) > 0 || o.buf != nil && !o.reserved }

// takeLocked takes what is to be written next.
func (o *Output) takeLocked() (p piece, ok bool) {
	switch {
	case len(o.ahead) > 0:
		p = o.ahead[0]
		o.ahead = slices.Delete(o.ahead, 0, 1)
		o.aheadBytes -= len(p.rest())
		return p, true
	case o.buf != nil && !o.reserved:
		p.buf, o.buf = o.buf, nil
		return p, true
	}
	return p, false
}

// putBackLocked puts a piece that was not written to its end before all others.
func (o *Output) putBackLocked(p piece) {
	if o.closed {
		p.give()
		return
	}
	o.ahead = slices.Insert(o.ahead, 0, p)
	o.aheadBytes += len(p.rest())
	o.chargeLocked()
}

// Reserve leaves room for a reply, of about so many bytes, that is being made: what is appended from now on, the
// events of later entries, waits and goes behind it. What was appended before may be written meanwhile: if the reply
// will take long, wake says that the caller must give the connection to the flusher for that. The reader calls it,
// under the machine's lock.
func (o *Output) Reserve(bytes int) (wake bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reserved = true
	o.aheadBufferLocked()
	wake = bytes > outputBufferBytes && len(o.ahead) > 0 && !o.closed && !o.writing && !o.queued
	o.queued = o.queued || wake
	return wake
}

// Insert puts the reply, which is kept, where Reserve has left room for it.
func (o *Output) Insert(reply *[]byte, bodyBytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reserved = false
	if o.closed { // nobody will take it
		GiveBuffer(reply)
		return
	}
	o.replies.add(bodyBytes)
	defer o.chargeLocked()
	last := len(o.ahead) - 1
	// A pipeline of short replies is written by one call.
	if last >= 0 && len(*reply) <= outputBufferBytes && o.ahead[last].growsLocked() {
		p := &o.ahead[last]
		*p.buf = append(*p.buf, *reply...)
		o.aheadBytes += len(*reply)
		GiveBuffer(reply)
		if last == 0 && o.buf == nil && p.sent == 0 {
			o.buf, o.ahead, o.aheadBytes = p.buf, o.ahead[:0], 0
		}
		return
	}
	if o.buf == nil && last < 0 {
		o.buf = reply
		return
	}
	o.ahead = append(o.ahead, piece{buf: reply})
	o.aheadBytes += len(*reply)
}

// Gathers reports whether InsertParts may be called: nothing has to be done to the bytes before they are sent.
func (o *Output) Gathers() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.raw != nil
}

// InsertParts is Insert for a large reply in parts, which others may have, too: without a copy it writes them behind
// what was appended before, and returns when the client has taken them.
func (o *Output) InsertParts(parts net.Buffers, bodyBytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.writing && !o.closed {
		o.settled.Wait()
	}
	o.writing = true
	o.drainLocked() // what goes before it
	if !o.closed {
		o.writing = true
		o.replies.add(bodyBytes)
		o.wroteLocked(bodyBytes)
		o.sending = bodyBytes
		o.chargeLocked()
		o.mu.Unlock()
		_, err := parts.WriteTo(o.net)
		o.mu.Lock()
		o.sending = 0
		o.chargeLocked()
		if err != nil {
			o.closeLocked()
		}
		o.doneLocked()
	}
	o.reserved = false
}

// largeBuffers holds buffers that have grown beyond maxPooledBytes, until the next collections of garbage: who lists a
// large directory often does so again.
var largeBuffers sync.Pool

// maxLargeBytes is the most that largeBuffers keeps in one: a guess, some hundred thousand names.
const maxLargeBytes = 32 << 20

// TakeBufferFor returns an empty buffer for what will take about so many bytes.
func TakeBufferFor(bytes int) *[]byte {
	if bytes <= maxPooledBytes {
		return TakeBuffer()
	}
	if b, ok := largeBuffers.Get().(*[]byte); ok {
		if cap(*b) <= 2*bytes {
			return b
		}
		largeBuffers.Put(b) // it would hold much more than it counts
	}
	b := make([]byte, 0, min(bytes, maxLargeBytes))
	return &b
}
