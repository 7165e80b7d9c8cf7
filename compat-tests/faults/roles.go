package faults

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"zkd/jute"
)

// Role is one concept of clients: what they do, what they remember of it, and what must hold. Its clients work below a
// znode of their own, which has the name of the role.
type Role interface {
	// Plant makes the znodes that the clients begin with.
	Plant(s *Session) error
	// Run is one client, from 0 on, until the stop of its options. Clients run at once.
	Run(id int, pace time.Duration, o SessionOptions)
	// Identities are those that can read all that the clients have made.
	Identities() []Identity
	// Unsettled says what has still to end by itself on the server of a session, "" if nothing: it must in time, once
	// no client works any more.
	Unsettled(s *Session) (string, error)
	// Check holds the records against each other, and against the trees of all servers.
	Check(trees []Tree)
}

// Cast is how many clients of a role there are.
type Cast struct {
	Role    string
	Clients int
	Values
}

// Values bounds what clients of the role Large do.
type Values struct {
	Longest  int `json:",omitempty"` // length of a value, at most LargeMost; 0: that
	Requests int `json:",omitempty"` // of each client; 0: they go on until the end
}

// RoleOptions are what a role needs. All are needed but Skew and Values.
type RoleOptions struct {
	Root    string // of the round
	Clients int
	History *History
	Skew    time.Duration // how much two servers' clocks may differ
	Values
}

// Large is the role whose clients make the tree some megabytes large.
const Large = "large"

// Pipelines is the role whose clients do not wait for each answer.
const Pipelines = "pipelines"

// roles are all roles, in the order in which they are drawn.
var roles = []struct {
	name string
	make func(part) Role
}{
	{Pipelines, func(p part) Role { return &pipelines{part: p} }},
	{"watchers", func(p part) Role { return &watchers{part: p} }},
	{"lockers", func(p part) Role { return &lockers{part: p} }},
	{"owners", func(p part) Role { return &owners{part: p} }},
	{"lifetimes", func(p part) Role { return &lifetimes{part: p} }},
	{"quotas", func(p part) Role { return &quotas{part: p} }},
	{Large, func(p part) Role { return newLarge(p) }},
}

// RoleNames returns the names of all roles, always in the same order.
func RoleNames() (names []string) {
	for _, r := range roles {
		names = append(names, r.name)
	}
	return names
}

// NewRole returns the clients of a role, none of which runs yet.
func NewRole(name string, o RoleOptions) Role {
	for _, r := range roles {
		if r.name == name {
			return r.make(part{RoleOptions: o, name: name, root: o.Root + "/" + name})
		}
	}
	panic("there is no role " + name)
}

// part is what all roles have.
type part struct {
	RoleOptions
	name string
	root string // its own
}

// Identities implements Role for roles whose znodes all may read.
func (*part) Identities() []Identity { return nil }

// Unsettled implements Role for roles of which nothing ends by itself.
func (*part) Unsettled(*Session) (string, error) { return "", nil }

// violated notes what must not be.
func (p *part) violated(format string, args ...any) {
	p.History.Violated("%s: %s", p.name, fmt.Sprintf(format, args...))
}

// did counts a request by its outcome.
func (p *part) did(o Outcome) { p.History.Did(p.name, o) }

// outcome is what a reply tells of a request, if a code may come; another code is a violation.
func (p *part) outcome(what string, reply Reply, err error, may ...jute.Code) Outcome {
	o := Refused
	switch {
	case err != nil || reply.Err == jute.SessionExpired:
		o = Unknown
	case reply.Err == jute.OK:
		o = Done
	case reply.Err == jute.SystemError:
		o = Declined
	default:
		if !slices.Contains(may, reply.Err) {
			p.violated("%s was answered with %v", what, reply.Err)
		}
	}
	p.did(o)
	return o
}

// shift is how a client of a role works: session after session, each with many steps.
type shift struct {
	part *part
	id   int
	pace time.Duration
	o    SessionOptions
	// connected is called on each new connection; nil: nothing is to be done. A lost connection shows by itself.
	connected func(s *Session)
	step      func(s *Session)
	// last is done at the end, while all servers serve; nil: nothing.
	last func(s *Session)
}

// Bounds of the steps of one session.
const (
	stepsLeast = 50
	stepsMost  = 500
)

// run works until the stop.
func (w *shift) run() {
	pace := time.NewTicker(w.pace)
	defer pace.Stop()
	for !w.o.stopped() {
		s, err := Open(w.o)
		if err != nil {
			w.failed(err)
			return
		}
		w.session(s, pace.C)
	}
}

// session is the life of one session.
func (w *shift) session(s *Session, pace <-chan time.Time) {
	connects := 0
	steps := stepsLeast + w.o.Rand.IntN(stepsMost-stepsLeast)
	// It does not leave without a connection: what was under way on the last one would be nobody's.
	for ; steps > 0 || !s.Connected(); steps-- {
		if !s.Connected() {
			if err := s.Connect(); err != nil {
				w.over(s, err)
				return
			}
		}
		if s.Connects != connects && w.connected != nil {
			w.connected(s)
		}
		connects = s.Connects
		select {
		case <-pace:
		case <-w.o.Stop:
			w.finish(s)
			return
		}
		if s.Connected() && !w.o.rests() {
			w.step(s)
		}
	}
	w.leave(s)
}

// finish does what is last, and ends the session.
func (w *shift) finish(s *Session) {
	if w.last != nil && s.Connected() {
		w.last(s)
	}
	w.leave(s)
}

// leave ends a session, half the time by forgetting it.
func (w *shift) leave(s *Session) {
	if w.o.Rand.IntN(2) == 0 {
		s.Drop()
		return
	}
	_, _ = s.Close() // it expires else
}

// over notes how a session has ended that the client would have kept.
func (w *shift) over(s *Session, err error) {
	if errors.Is(err, ErrExpired) {
		w.part.History.Ended(Life{Session: s.ID, Timeout: int64(s.Timeout), Acked: s.Acked, Expired: w.o.Now()})
		return
	}
	w.failed(err)
}

func (w *shift) failed(err error) {
	if !w.o.stopped() {
		w.part.violated("client %d: %v", w.id, err)
	}
}

// Life is what is known of a session that has expired while its client used it, in times of the run's clock.
type Life struct {
	Session jute.SessionID
	Timeout int64
	Acked   int64 // when its last write was sent that was acknowledged; 0: there was none
	Expired int64 // when the client was told
}

// CheckLives sees to it that no session ends before its time-out. tick is how much earlier a server may have heard of
// one than it was asked.
func CheckLives(lives []Life, tick time.Duration, violated func(string, ...any)) {
	for _, l := range lives {
		if l.Acked != 0 && l.Expired-l.Acked < l.Timeout-int64(tick) {
			violated("session %#x expired by %.6f, %.3f s after a write that was acknowledged; its time-out is %.3f s",
				l.Session, float64(l.Expired)/1e9, float64(l.Expired-l.Acked)/1e9, float64(l.Timeout)/1e9)
		}
	}
}
