package faults

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"zkd/jute"
)

// LargeMost is the length of the longest value: what jute.maxbuffer takes by default, but for the request around it.
const LargeMost = 1000 << 10

// largePace is how many times the pace of others lies between two requests.
const largePace = 20

// large are clients that write and read values of hundreds of kilobytes.
type large struct {
	part
	longest int // that a value is; the shortest is about a third of that
	mu      sync.Mutex
	all     []Value // guarded by mu
}

// Value is a large value that was written, or read after a sync.
type Value struct {
	Owner     int  // the client that writes it
	Read      bool // not written
	Number    int  // of the write, as the value says; -1: the value does not tell, or is not whole
	Call, Ret int64
	Outcome   Outcome
}

func (l *large) path(client int) string { return fmt.Sprintf("%s/c%d", l.root, client) }

// newLarge returns the clients.
func newLarge(p part) *large {
	l := &large{part: p, longest: p.Longest}
	if l.longest == 0 {
		l.longest = LargeMost
	}
	return l
}

// value is the value of that number: it says which it is, and how long, and the rest follows from that.
func (l *large) value(owner, number int) string {
	least := l.longest * 3 / 10
	size := least + (owner*7919+number*104729)%(l.longest-least)
	head := fmt.Sprintf("%d:%d:%d:", owner, number, size)
	return (head + strings.Repeat(head, size/len(head)))[:size]
}

// numberOf reads the number of a value, or returns -1 if it is not one of that owner's.
func (l *large) numberOf(owner int, value string) int {
	var of, number, size int
	head, _, _ := strings.Cut(value, "\n")
	if _, err := fmt.Sscanf(head[:min(len(head), 64)], "%d:%d:%d:", &of, &number, &size); err != nil || of != owner ||
		value != l.value(owner, number) {
		return -1
	}
	return number
}

// Plant implements Role.
func (l *large) Plant(s *Session) error {
	if err := s.Plant(l.root, ""); err != nil {
		return err
	}
	for client := range l.Clients {
		if err := s.Plant(l.path(client), l.value(client, 0)); err != nil {
			return err
		}
	}
	return nil
}

// Run implements Role.
func (l *large) Run(id int, pace time.Duration, o SessionOptions) {
	n, asked := 0, 0
	(&shift{part: &l.part, id: id, pace: largePace * pace, o: o, step: func(s *Session) {
		if asked++; l.Requests > 0 && asked > l.Requests {
			_ = s.Ping() // a lost connection shows by itself
			return
		}
		if o.Rand.IntN(2) == 0 {
			l.read(s, o.Rand.IntN(l.Clients))
			return
		}
		n++
		reply, _, err := s.SetData(l.path(id), l.value(id, n), jute.AnyVersion)
		l.add(Value{Owner: id, Number: n, Call: reply.Call, Ret: reply.Ret,
			Outcome: l.outcome("setData", reply, err, jute.Throttled)})
	}}).run()
}

// read reads a value.
func (l *large) read(s *Session, owner int) {
	sync, err := s.Sync(l.path(owner))
	if err != nil || sync.Err != jute.OK {
		return
	}
	reply, data, _, err := s.GetData(l.path(owner), false)
	if l.outcome("getData", reply, err) == Done {
		l.add(Value{Owner: owner, Read: true, Number: l.numberOf(owner, data), Call: sync.Call, Ret: reply.Ret,
			Outcome: Done})
	}
}

// add notes a value.
func (l *large) add(v Value) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, v)
}

// Check implements Role.
func (l *large) Check(trees []Tree) {
	all := l.all
	for _, tree := range trees {
		for client := range l.Clients {
			all = append(all, Value{Owner: client, Read: true, Number: l.numberOf(client, tree[l.path(client)].Data),
				Call: never - 1, Ret: never, Outcome: Done})
		}
	}
	CheckValues(all, l.violated)
}

// CheckValues sees to it that each value that was read is whole, not older than what was acknowledged before, and not
// one that was refused or that nobody had begun to write.
func CheckValues(all []Value, violated func(string, ...any)) {
	for _, r := range all {
		if !r.Read {
			continue
		}
		least, isWritten := 0, r.Number == 0
		for _, w := range all {
			if w.Read || w.Owner != r.Owner {
				continue
			}
			if w.Outcome == Done && w.Ret < r.Call {
				least = max(least, w.Number)
			}
			isWritten = isWritten ||
				w.Number == r.Number && w.Call < r.Ret && (w.Outcome == Done || w.Outcome == Unknown)
		}
		switch {
		case r.Number < 0:
			violated("not whole: %+v", r)
		case r.Number < least:
			violated("older than number %d, which was acknowledged before: %+v", least, r)
		case !isWritten:
			violated("nobody had written it: %+v", r)
		}
	}
}
