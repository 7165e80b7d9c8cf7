package faults

import (
	"fmt"
	"maps"
	"math"
	"sync"

	"zkd/jute"
)

// never is the Return of an operation whose outcome is not known: it may take effect at any time.
const never = math.MaxInt64

// Kind says what an operation does.
type Kind int

// The kinds of operations.
const (
	Write      Kind = iota // setData of any version
	Swap                   // setData of one version
	SyncRead               // sync, then getData on the same connection
	Read                   // getData alone
	Create                 // a persistent znode of its own name
	Sequential             // a persistent sequential znode
	Remove                 // delete of a znode of its own
	Multi                  // two creates in one multi, with -a and -b after Path
)

// Outcome is what is known of an operation.
type Outcome int

// The outcomes.
const (
	Unknown  Outcome = iota // the reply was lost: it may have happened, or happen later
	Done                    // acknowledged
	Refused                 // BadVersion, for a Swap
	Declined                // SystemError, for want of room on the disks: it has not happened, and is not kept
)

// Op is one operation of a client, as the client saw it.
type Op struct {
	Client    int
	Session   jute.SessionID
	Kind      Kind
	Path      string
	Value     string       // written or read; the name that was given to a Sequential
	Expected  jute.Version // of a Swap
	Call, Ret int64        // nanoseconds of the run's clock; Ret is never if the outcome is Unknown
	Outcome   Outcome
	Version   jute.Version // of the znode, as a write has left it or a read has found it
	Mzxid     jute.Zxid
	Zxid      jute.Zxid // of the reply to a write; 0: not known
}

func (o Op) String() string {
	return fmt.Sprintf("client %d %s %s value %q version %d mzxid %#x outcome %d at %.6f to %.6f",
		o.Client, [...]string{"write", "swap", "syncread", "read", "create", "sequential", "delete", "multi"}[o.Kind],
		o.Path, o.Value, o.Version, o.Mzxid, o.Outcome, float64(o.Call)/1e9, float64(min(o.Ret, o.Call+1e12))/1e9)
}

// grows reports whether an operation may need room on the disks that it does not give back.
func (o Op) grows() bool { return o.Kind != SyncRead && o.Kind != Read && o.Kind != Remove }

// writes reports whether an operation changes a register.
func (o Op) writes() bool { return o.Kind == Write || o.Kind == Swap }

// Ephemeral is what is known of one ephemeral znode, in times of the run's clock; 0: it has not happened.
type Ephemeral struct {
	Path    string
	Session jute.SessionID
	Created int64 // the create was acknowledged
	Acked   int64 // the session's last write that was acknowledged was sent
	Closed  int64 // the close of the session was acknowledged
	Ending  int64 // the session may end from here on: its close was sent, or its client left it
	Expired int64 // the client was told that the session is gone
	Timeout int64 // nanoseconds
}

// Sighting is one look at an ephemeral znode from outside its session, by a sync and a read after it.
type Sighting struct {
	Path      string
	Call, Ret int64
	Present   bool
	Owner     jute.SessionID
	Addr      string
}

// History is what all clients of a round have seen. Any goroutine.
type History struct {
	mu         sync.Mutex
	ops        []Op
	ephemerals map[string]*Ephemeral
	paths      []string // of ephemerals, in the order of their creation
	sightings  []Sighting
	lives      []Life
	violations []string
	roles      map[string]int // requests that were done
	counts     [Declined + 1]int
}

// NewHistory returns an empty one.
func NewHistory() *History {
	return &History{ephemerals: map[string]*Ephemeral{}, roles: map[string]int{}}
}

// violationsMax bounds what is printed: the first ones say what is wrong.
const violationsMax = 50

// Violated notes what must not be.
func (h *History) Violated(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.violations) < violationsMax {
		h.violations = append(h.violations, fmt.Sprintf(format, args...))
	}
}

// Violations returns what was noted.
func (h *History) Violations() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.violations
}

// Add notes an operation.
func (h *History) Add(op Op) {
	if op.Outcome == Declined {
		return
	}
	if op.Outcome == Unknown {
		op.Ret = never
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// See notes a sighting.
func (h *History) See(s Sighting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sightings = append(h.sightings, s)
}

// Ephemeral changes what is known of an ephemeral znode, which it makes known.
func (h *History) Ephemeral(path string, change func(*Ephemeral)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.ephemerals[path]
	if e == nil {
		e = &Ephemeral{Path: path}
		h.ephemerals[path] = e
		h.paths = append(h.paths, path)
	}
	change(e)
}

// AnyEphemeral returns the path of one of the last ephemeral znodes that were created, "" if there is none.
func (h *History) AnyEphemeral(intN func(int) int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.paths) == 0 {
		return ""
	}
	recent := h.paths[max(0, len(h.paths)-8):]
	return recent[intN(len(recent))]
}

// Did counts a request of a role.
func (h *History) Did(role string, o Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[o]++
	if o == Done {
		h.roles[role]++
	}
}

// Roles returns how many requests of each role were done.
func (h *History) Roles() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.roles)
}

// Ended notes a session that has expired while its client used it.
func (h *History) Ended(l Life) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lives = append(h.lives, l)
}

// Counts returns the numbers of operations by outcome.
func (h *History) Counts() (done, refused, unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.ops {
		switch h.ops[i].Outcome {
		case Done:
			done++
		case Refused:
			refused++
		default:
			unknown++
		}
	}
	return done + h.counts[Done], refused + h.counts[Refused], unknown + h.counts[Unknown]
}
