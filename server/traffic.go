package server

import (
	"strings"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/server/auth"
	"zkd/server/socket"
	"zkd/server/traffic"
	"zkd/storage/acl"
	"zkd/storage/apply"
)

// Bytes of frames, with their lengths.
const (
	requestHeadBytes = jute.FrameHeaderBytes + 8  // of a request, before its body
	replyHeadBytes   = jute.FrameHeaderBytes + 16 // of an answer, before its body
)

// metered counts what a connection asks for, and says who its client is.
type metered struct {
	traffic.Meter

	conn    *conn
	watches int // that the present request has set; owned by the reader
	user    atomic.Pointer[userText]

	// Bytes of the ConnectRequest's frame and of its answer's. The reader's until the session is proposed, then of who
	// answers.
	greetingIn, greetingOut int
}

// userText is who a connection has proven to be, as a text.
type userText struct {
	of   *acl.Proven
	text string
}

// userBytesMax is how much is shown of who a client is: it may have proven to be many.
const userBytesMax = 128

// Client implements traffic.Owner.
func (m *metered) Client() traffic.Client {
	c := m.conn
	who := traffic.Client{Remote: c.remote, User: m.userName()}
	if c.counts.bound.Load() {
		who.Session = c.session
	}
	return who
}

// userName is who the connection has proven to be, but for its address.
func (m *metered) userName() string {
	c := m.conn
	proven := c.login.ids.Proven()
	if known := m.user.Load(); known != nil && known.of == proven {
		return known.text
	}
	var names []string
	for _, id := range c.login.ids.Snapshot() {
		if id.Scheme == auth.SchemeIP || id.Scheme == auth.SchemeSASLAny {
			continue
		}
		if p := c.server.opts.Registry.Provider(id.Scheme); p != nil {
			if name := p.User(id.ID); strings.TrimSpace(name) != "" {
				names = append(names, id.Scheme+":"+name)
			}
		}
	}
	text := shownUpTo(strings.Join(names, ","), userBytesMax)
	m.user.Store(&userText{proven, text})
	return text
}

// tally counts, by operation, path and client, what the reader has answered, in a frame of so many bytes.
func (m *metered) tally(r *request, out int, code jute.Code, took time.Duration) {
	a := traffic.Answer{Op: r.op, In: requestHeadBytes + len(r.body), Out: out, Failed: code != jute.OK, Took: took,
		Watches: m.watches}
	m.watches = 0
	if mark := m.Answered(&a); mark.Wanted() {
		m.Note(mark, &a, pathOf(r), m.phases(took))
	}
}

// tallyWrite counts a write that was answered in a frame of so many bytes. The apply goroutine calls it; of a reconfig
// any goroutine.
func (m *metered) tallyWrite(r *apply.Result, came socket.Arrival, out int, now time.Duration) {
	a := traffic.Answer{Op: r.Op, In: came.Frame, Out: out, Failed: r.Code != jute.OK,
		Took: now - came.At}
	share := time.Duration(0)
	if r.Op != jute.OpReconfig {
		share = applyShare(m.conn.server.opts.node)
	}
	mark, path := m.Written(&a, share)
	if !mark.Wanted() || r.Op == jute.OpReconfig { // which has waited for other members
		return
	}
	if path == "" {
		path = changedPath(r)
	}
	m.Note(mark, &a, path, m.writePhases(came, now))
}

// applyShare is what the apply goroutine has needed for a write of the present entry, on average. It calls this.
func applyShare(node Node) time.Duration {
	if node, ok := node.(applying); ok {
		return node.ApplyShare()
	}
	return 0
}

// phases is where the time of a read went, or of what else the reader answers.
func (m *metered) phases(took time.Duration) *traffic.Phases {
	c := m.conn
	p := &traffic.Phases{Queue: c.admitter.waited, Turn: max(c.queueWait-c.admitter.waited, 0), Confirm: c.barrierWait}
	p.Answer = took - p.Queue - p.Turn - p.Confirm
	return p
}

// applying is a Node that knows how the present entry came to be applied.
type applying interface {
	// ApplyPhases tells that, for the apply goroutine: in its Waiters and its Observer.
	ApplyPhases() quorum.ApplyPhases
	// ApplyShare is the part of it that is asked for at each write.
	ApplyShare() time.Duration
}

// writePhases is where the time of a write went. The apply goroutine calls it.
func (m *metered) writePhases(a socket.Arrival, now time.Duration) *traffic.Phases {
	s := m.conn.server
	p := &traffic.Phases{Queue: a.Taken - a.At}
	node, ok := s.opts.node.(applying)
	if !ok {
		p.Apply = now - a.Taken
		return p
	}
	past := a.Taken
	// until returns the time from the end of the last phase to at; 0 if that was before, or is not known.
	until := func(at time.Time) time.Duration {
		if at.IsZero() {
			return 0
		}
		end := min(max(at.Sub(s.started), past), now)
		took := end - past
		past = end
		return took
	}
	from := node.ApplyPhases()
	p.Log, p.Replicate, p.Apply = until(from.Durable), until(from.Committed), now-past
	return p
}
