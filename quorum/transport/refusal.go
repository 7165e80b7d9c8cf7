package transport

import (
	"fmt"
	"sync"
	"time"

	"zkd/quorum/clock"
	"zkd/quorum/warning"
)

// Code is what the accepting side answers; docs/formats/peer.md lists them. The numbers are on the wire.
type Code uint8

// The codes of an answer.
const (
	Accepted Code = iota
	// OtherCluster: both know their cluster, and they differ.
	OtherCluster
	// WrongServer: the address leads to another server than the one meant.
	WrongServer
	// SameID: the caller claims the id of the server that it calls.
	SameID
	// Itself: the caller has called itself.
	Itself
	// AlreadyConnected: another process with the caller's id is connected.
	AlreadyConnected
	// NotMember: the caller is none of the servers that the accepting one knows.
	NotMember
	// BadVersion: there is no version that both speak.
	BadVersion
	// NoStreams: the accepting server takes no stream of this purpose, or has too many.
	NoStreams
	// Known: the caller asks for the cluster only, and is known as a member.
	Known
	// OtherFounders: neither knows a cluster, and they would found different ones.
	OtherFounders
	// OldLevel: the ensemble is at a feature level that the caller cannot do.
	OldLevel
	// BootstrapConflict: one of both bootstraps an ensemble without data, the other belongs to one that is founded on
	// data.
	BootstrapConflict
	// Unproven: the accepting server demands a proof before it says anything.
	Unproven
)

// remedies says for each refusal what an operator does about it, on the side that is refused.
var remedies = [...]string{
	Accepted:         "",
	OtherCluster:     "correct the address, or empty the data directory of the server that has joined by mistake",
	WrongServer:      "correct the server lines or the myid files: address and id do not belong together",
	SameID:           "two servers have one id: correct the myid file of one",
	Itself:           "the server line of that peer has an address of this server: correct it",
	AlreadyConnected: "two servers have one id: correct the myid file of one; after a restart it passes by itself",
	NotMember:        "add this server to the configuration of that one, or by reconfig",
	BadVersion:       "upgrade the older server, by way of a version that both understand",
	NoStreams:        "it is tried again later",
	Known:            "nothing is wrong",
	OtherFounders: "make the server lines of both the same; one that is to join an ensemble that runs needs " +
		"zkd.join=true",
	OldLevel: "run on the older server the zkd that the others run: the feature level of an ensemble is never lowered",
	BootstrapConflict: "stop the servers that have no data of their own and empty their dataDir: they get the " +
		"data from the others; until then this passes only if they have founded an ensemble",
	Unproven: "give this server what that one demands: zkd.quorum.secretFile with the same secret, or " +
		"quorum.auth.enableSasl=true and quorum.auth.learnerRequireSasl=true with a login",
}

// remedy says what an operator does about the refusal.
func (c Code) remedy() string {
	if int(c) < len(remedies) {
		return remedies[c]
	}
	return "the peer is a newer zkd: see its log"
}

// RefusalError says that a peer, or this server on reading its answer, refused a connection that was made.
type RefusalError struct {
	Code Code
	Text string // what the refusing side says

	cluster   [16]byte // of the refusing side
	processID uint64   // likewise

	standing Standing // likewise
}

// Error gives the refusing side's words and the remedy.
func (e *RefusalError) Error() string {
	return fmt.Sprintf("the peer refused: %q: %s", e.Text, e.Code.remedy())
}

// outsider is this server as long as peers refuse it because they know it not. All do, and each again and again: it is
// told once for all of them, and again at growing intervals.
type outsider struct {
	clock clock.Clock

	mu    sync.Mutex
	taken time.Time     // guarded by mu; when a peer took this server last
	at    time.Time     // guarded by mu; when it was told last
	again time.Duration // guarded by mu; from then to when it is told again; 0: it was not told
}

// next tells whether a refusal is to be told now. One of a connection that was begun before a peer took this server is
// no news: who refuses may not have heard yet what that one has.
func (o *outsider) next(begun time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	if begun.Before(o.taken) {
		return false
	}
	if o.again > 0 && now.Sub(o.at) < o.again {
		return false
	}
	o.at, o.again = now, warning.NextAgain(o.again)
	return true
}

// reset takes note that a peer has taken this server now.
func (o *outsider) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken, o.again = o.clock.Now(), 0
}
