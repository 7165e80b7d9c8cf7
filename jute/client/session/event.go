package session

import (
	"errors"

	"zkd/jute"
)

// State is that of a session.
type State int

// The states. Those from Closed on are final.
const (
	Connecting State = iota // no connection: one is looked for
	Connected
	ConnectedReadOnly // to a server without a quorum, which serves reads
	Closed
	Expired
	AuthFailed
)

// Ended tells whether a session in this state is over.
func (s State) Ended() bool { return s >= Closed }

// EventKind says what an event is about.
type EventKind int

// The kinds of events: the state of the session has changed, a znode has, or a watch was removed.
const (
	EventState EventKind = iota
	EventNode
	EventWatchRemoved
)

// Event is what a session tells of itself and of znodes.
type Event struct {
	Kind    EventKind
	State   State            // of the session
	Type    jute.EventType   // of EventNode
	Removed jute.WatcherType // of EventWatchRemoved: children, data or persistent
	Path    string           // below the chroot; "" with EventState
	Zxid    jute.Zxid        // of the change; -1 where no server has said it
}

// Error is what a server has answered, or the session in its place (ConnectionLoss, SessionExpired, AuthFailed).
type Error struct {
	Code jute.Code
	Path string // that was asked about, "" for none
}

// Error names the code and the path.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Code.String()
	}
	return e.Code.String() + " for " + e.Path
}

// CodeOf returns the code of an Error in err's chain; OK if there is none.
func CodeOf(err error) jute.Code {
	if found := (*Error)(nil); errors.As(err, &found) {
		return found.Code
	}
	return jute.OK
}

// ErrLogin means that SASL has come to no end: the server has refused, or is not the one that it should be.
var ErrLogin = errors.New("SASL login failed")
