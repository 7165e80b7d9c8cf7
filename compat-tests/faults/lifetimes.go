package faults

import (
	"fmt"
	"math"
	"sync"
	"time"

	"zkd/jute"
)

// What the clients of lifetimes draw.
const (
	ttlLeast  = 300 * time.Millisecond
	ttlMost   = 4 * time.Second
	spansKept = 8 // of the latest znodes, which the clients look at
)

// lifetimes are clients that make znodes with a time to live, and containers with children, and look when they go.
type lifetimes struct {
	part
	mu    sync.Mutex
	spans []*Span // guarded by mu
	looks []Look  // guarded by mu
}

// Span is a time during which a znode must be there, in nanoseconds of the run's clock.
type Span struct {
	Path     string
	From, To int64
}

// Look is a look at a znode, by a sync and a read after it.
type Look struct {
	Path, Addr string
	Call, Ret  int64
	Present    bool
}

func (l *lifetimes) ttls() string       { return l.root + "/ttl" }
func (l *lifetimes) containers() string { return l.root + "/containers" }

// Plant implements Role.
func (l *lifetimes) Plant(s *Session) error {
	for _, path := range []string{l.root, l.ttls(), l.containers()} {
		if err := s.Plant(path, ""); err != nil {
			return err
		}
	}
	return nil
}

// Run implements Role.
func (l *lifetimes) Run(id int, pace time.Duration, o SessionOptions) {
	c := &mortal{role: l, id: id}
	(&shift{part: &l.part, id: id, pace: 2 * pace, o: o, step: c.step}).run()
}

// mortal is one of the clients.
type mortal struct {
	role   *lifetimes
	id, n  int
	leased []lease // its znodes with a time to live
	full   []*Span // of its containers with a child
}

// lease is a znode with a time to live.
type lease struct {
	path string
	ttl  time.Duration
}

// step does one thing.
func (c *mortal) step(s *Session) {
	r := s.o.Rand
	switch n := r.IntN(10); {
	case n < 2:
		c.lease(s)
	case n < 4 && len(c.leased) > 0:
		c.renew(s, c.leased[len(c.leased)-1-r.IntN(min(3, len(c.leased)))])
	case n < 5:
		c.contain(s)
	case n < 6 && len(c.full) > 0:
		c.drain(s, r.IntN(len(c.full)))
	default:
		c.look(s)
	}
}

// name returns a path of the client's own.
func (c *mortal) name(parent string) string {
	c.n++
	return fmt.Sprintf("%s/c%d.%d", parent, c.id, c.n)
}

// lease makes a znode with a time to live.
func (c *mortal) lease(s *Session) {
	one := lease{c.name(c.role.ttls()), ttlLeast + time.Duration(s.o.Rand.Int64N(int64(ttlMost-ttlLeast)))}
	reply, err := s.CreateTTL(one.path, one.ttl)
	if c.role.outcome("createTTL", reply, err) == Done {
		c.role.span(Span{one.path, reply.Ret, reply.Call + int64(one.ttl)})
		c.leased = append(c.leased, one)
	}
}

// renew writes to it.
func (c *mortal) renew(s *Session, one lease) {
	reply, _, err := s.SetData(one.path, "x", jute.AnyVersion)
	switch c.role.outcome("setData", reply, err, jute.NoNode) {
	case Done:
		c.role.span(Span{one.path, reply.Ret, reply.Call + int64(one.ttl)})
	case Refused:
		c.role.see(Look{one.path, s.Addr, reply.Call, reply.Ret, false})
	}
}

// contain makes a container with a child.
func (c *mortal) contain(s *Session) {
	path := c.name(c.role.containers())
	reply, err := s.CreateContainer(path)
	if c.role.outcome("createContainer", reply, err) != Done {
		return
	}
	reply, _, err = s.Create(path+"/x", "", jute.ModePersistent)
	if c.role.outcome("create", reply, err) == Done {
		c.full = append(c.full, c.role.span(Span{path, reply.Ret, math.MaxInt64}))
	}
}

// drain deletes the child of a container.
func (c *mortal) drain(s *Session, i int) {
	span := c.full[i]
	c.full = append(c.full[:i], c.full[i+1:]...)
	c.role.ends(span, s.o.Now())
	reply, err := s.Delete(span.Path + "/x")
	c.role.outcome("delete", reply, err)
}

// look looks at a znode of any client.
func (c *mortal) look(s *Session) {
	path := c.role.any(s.o.Rand.IntN)
	if path == "" {
		return
	}
	sync, err := s.Sync(path)
	if err != nil || sync.Err != jute.OK {
		return
	}
	reply, _, err := s.Exists(path)
	if o := c.role.outcome("exists", reply, err, jute.NoNode); o == Done || o == Refused {
		c.role.see(Look{path, s.Addr, sync.Call, reply.Ret, o == Done})
	}
}

// span notes one.
func (l *lifetimes) span(s Span) *Span {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spans = append(l.spans, &s)
	return &s
}

// ends notes the end of one.
func (l *lifetimes) ends(s *Span, at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.To = at
}

// any returns the path of one of the latest znodes, "" if there is none.
func (l *lifetimes) any(intN func(int) int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.spans) == 0 {
		return ""
	}
	recent := l.spans[max(0, len(l.spans)-spansKept):]
	return recent[intN(len(recent))].Path
}

// see notes a look.
func (l *lifetimes) see(look Look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks = append(l.looks, look)
}

// Unsettled implements Role: what has a time to live goes, and so do containers that have had a child and have none.
func (l *lifetimes) Unsettled(s *Session) (string, error) {
	_, names, _, err := s.Children(l.ttls(), false)
	if err != nil || len(names) > 0 {
		return fmt.Sprintf("their time to live is over: %v", names), err
	}
	_, names, _, err = s.Children(l.containers(), false)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		reply, stat, err := s.Exists(l.containers() + "/" + name)
		if err != nil {
			return "", err
		}
		if reply.Err == jute.OK && stat.NumChildren == 0 && stat.Cversion > 0 {
			return "a container is empty: " + name, nil
		}
	}
	return "", nil
}

// Check implements Role.
func (l *lifetimes) Check(trees []Tree) {
	spans := make([]Span, len(l.spans))
	for i, s := range l.spans {
		spans[i] = *s
		for _, tree := range trees {
			if _, there := tree[s.Path]; s.To == math.MaxInt64 && !there {
				l.violated("a container with a child is gone at the end: %+v", *s)
			}
		}
	}
	CheckLifetimes(spans, l.looks, l.Skew, l.violated)
}

// CheckLifetimes sees to it that nothing was gone while it had to be there. skew is how much too early what has a time
// to live may go, because servers' clocks differ.
func CheckLifetimes(spans []Span, looks []Look, skew time.Duration, violated func(string, ...any)) {
	byPath := map[string][]Span{}
	for _, s := range spans {
		byPath[s.Path] = append(byPath[s.Path], s)
	}
	for _, look := range looks {
		for _, s := range byPath[look.Path] {
			early := int64(skew)
			if s.To == math.MaxInt64 {
				early = 0
			}
			if !look.Present && s.From < look.Call && look.Ret < s.To-early {
				violated("%s was gone on %s at %.6f, it had to be there from %.6f to %.6f", look.Path, look.Addr,
					float64(look.Ret)/1e9, float64(s.From)/1e9, float64(s.To)/1e9)
			}
		}
	}
}
