package sim

import (
	"fmt"
	"strings"

	"zkd/jute"
	"zkd/storage/apply"
)

// op is one operation of a client, from its request to what became of it.
type op struct {
	c       *client
	k       *conn // that it was requested on
	kind    jute.Op
	session jute.SessionID
	xid     jute.Xid
	path    string
	body    []byte
	steps   []step    // what a write does, as the checks see it: one, or several of a multi
	watch   bool      // a read that registers a watch
	rel     jute.Zxid // of setWatches: what the client has seen

	state  opState
	asked  int64     // when the client asked; the client's patience counts from here
	call   int64     // when the server gave it to its node
	ret    int64     // when the node answered; 0: it has not
	floor  jute.Zxid // what any member had applied at call
	told   bool      // the waiter was
	answer answer

	index uint64 // of the log entry in which it was committed; 0: in none so far
	zxid  jute.Zxid
	code  jute.Code // as committed
}

// step is a part of a write: what it does to one znode.
type step struct {
	kind    jute.Op // create, setData, delete, setACL, check
	path    string
	mode    jute.CreateMode
	data    string
	version jute.Version
}

// answer is what an operation was answered.
type answer struct {
	code  jute.Code
	zxid  jute.Zxid // of a write; of a read, the last that its View showed
	path  string
	stat  jute.Stat
	stats []jute.Stat // of the steps of a multi that has succeeded
	found bool        // of a read
	data  string      // of a read
}

// opState is how far an operation has come.
type opState uint8

// The states of an operation.
const (
	opRequested opState = iota // on its way to the server, or waiting there
	opRefused                  // never given to the node, or refused by it: it has no effect, now or later
	opProposed                 // the node has it
	opDropped                  // the node does not know what becomes of it
	opAnswered
)

// String describes the operation for messages.
func (o *op) String() string {
	return fmt.Sprintf("%v %s (client %d, session %#x, xid %d)", o.kind, o.path, o.c.id, uint64(o.session), o.xid)
}

// writes tells whether the operation goes into the log.
func (o *op) writes() bool {
	switch o.kind {
	case jute.OpSync, jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpSetWatches:
		return false
	}
	return true
}

// refuse says that the operation has no effect.
func (o *op) refuse() {
	o.state = opRefused
	if o.writes() {
		o.c.w.ledger.refused(o)
	}
	o.c.forget(o)
}

// proposed says that the node of k gets it.
func (o *op) proposed(k *conn) {
	w := o.c.w
	o.k, o.state = k, opProposed
	o.call, o.floor = w.observe(), w.ledger.known
	if o.writes() {
		w.ledger.proposed(o)
	}
	w.history = append(w.history, o)
	w.trace.note(w.now, "propose", uint64(o.c.id), uint64(o.kind), uint64(o.xid), k.s.m.id, hashString(o.path))
}

// answered takes the result of a write, and compares it with what the log says.
func (o *op) answered(r *apply.Result) {
	w := o.c.w
	if o.state == opAnswered { // by PlantEarlyAnswer
		return
	}
	o.ret, o.state = w.observe(), opAnswered
	o.answer = answer{code: r.Code, zxid: r.Zxid, path: strings.Clone(r.Path), stat: r.Stat}
	for i := range r.Ops {
		o.answer.stats = append(o.answer.stats, r.Ops[i].Stat)
	}
	w.report.Ops++
	w.trace.note(w.now, "answer", uint64(o.c.id), uint64(o.xid), uint64(r.Zxid), uint64(r.Code))
	switch {
	case o.index == 0:
		w.fail("%v is answered and not in the log", o)
	case r.Zxid != o.zxid || r.Code != o.code:
		w.fail("%v is answered zxid %d, %v; in the log it has zxid %d, %v", o, r.Zxid, r.Code, o.zxid, o.code)
	}
}

// dropped says that nobody knows what becomes of it.
func (o *op) dropped() {
	o.state = opDropped
	o.c.w.report.Unknown++
	o.c.w.trace.note(o.c.w.now, "dropped", uint64(o.c.id), uint64(o.xid))
}
