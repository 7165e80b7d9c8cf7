package faults

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"zkd/jute"
)

// The hard limits of each client's subtree: few, so that they are met.
const (
	quotaCount = 7
	quotaBytes = 120
	quotaData  = 50 // of one znode, at most
)

// quotas are clients that fill and empty subtrees with hard limits, each its own.
type quotas struct {
	part
	mu      sync.Mutex
	charges []Charge // guarded by mu
}

// Charge is a request that makes a subtree larger or smaller, and what the subtree held before.
type Charge struct {
	Client       int
	Count, Bytes int // before; what the client knows
	More         int // znodes that it adds
	MoreBytes    int // bytes that it adds
	Code         jute.Code
}

func (q *quotas) folder(client int) string { return fmt.Sprintf("%s/c%d", q.root, client) }

// quotaOf is where the quota of a path is.
func quotaOf(path string) string { return "/zookeeper/quota" + path }

// Plant implements Role.
func (q *quotas) Plant(s *Session) error {
	paths := []string{q.root}
	for at := 1; at < len(q.root); at++ {
		if q.root[at] == '/' {
			paths = append(paths, quotaOf(q.root[:at]))
		}
	}
	paths = append(paths, quotaOf(q.root))
	for client := range q.Clients {
		f := q.folder(client)
		paths = append(paths, f, quotaOf(f), quotaOf(f)+"/zookeeper_limits", quotaOf(f)+"/zookeeper_stats")
	}
	for _, path := range paths {
		data := ""
		if strings.HasSuffix(path, "/zookeeper_limits") {
			data = fmt.Sprintf("count=-1,bytes=-1=;byteHardLimit=%d;countHardLimit=%d", quotaBytes, quotaCount)
		}
		if err := s.Plant(path, data); err != nil {
			return err
		}
	}
	return nil
}

// Run implements Role.
func (q *quotas) Run(id int, pace time.Duration, o SessionOptions) {
	c := &charger{role: q, id: id}
	(&shift{part: &q.part, id: id, pace: 2 * pace, o: o, connected: c.count, step: c.step}).run()
}

// charger is one of the clients.
type charger struct {
	role  *quotas
	id    int
	names []string       // of the children, sorted as they came
	bytes map[string]int // of their data; nil: not known
	n     int
}

// count reads what the subtree holds, if that is not known.
func (c *charger) count(s *Session) {
	if c.bytes != nil {
		return
	}
	folder := c.role.folder(c.id)
	if reply, err := s.Sync(folder); err != nil || reply.Err != jute.OK {
		s.Drop()
		return
	}
	reply, names, _, err := s.Children(folder, false)
	bytes := map[string]int{}
	for _, name := range names {
		if err != nil || reply.Err != jute.OK {
			break
		}
		var data string
		reply, data, _, err = s.GetData(folder+"/"+name, false)
		bytes[name] = len(data)
	}
	if err != nil || reply.Err != jute.OK {
		s.Drop()
		return
	}
	c.names, c.bytes = names, bytes
}

// held is what the subtree holds, as far as the client knows.
func (c *charger) held() Charge {
	h := Charge{Client: c.id, Count: 1 + len(c.names)}
	for _, name := range c.names {
		h.Bytes += c.bytes[name]
	}
	return h
}

// step adds, changes or removes a child.
func (c *charger) step(s *Session) {
	if c.bytes == nil {
		return
	}
	r, charge, data := s.o.Rand, c.held(), strings.Repeat("x", 1+s.o.Rand.IntN(quotaData))
	folder, name := c.role.folder(c.id), ""
	if len(c.names) > 0 {
		name = c.names[r.IntN(len(c.names))]
	}
	var reply Reply
	var err error
	switch n := r.IntN(5); {
	case n < 3 || name == "":
		c.n++
		name = fmt.Sprintf("n%d", c.n)
		charge.More, charge.MoreBytes = 1, len(data)
		reply, _, err = s.Create(folder+"/"+name, data, jute.ModePersistent)
	case n < 4:
		charge.MoreBytes = len(data) - c.bytes[name]
		reply, _, err = s.SetData(folder+"/"+name, data, jute.AnyVersion)
	default:
		charge.More, charge.MoreBytes = -1, -c.bytes[name]
		reply, err = s.Delete(folder + "/" + name)
	}
	switch o := c.role.outcome("a change", reply, err, jute.QuotaExceeded); o {
	case Unknown:
		c.bytes = nil
		s.Drop()
	case Done, Refused:
		charge.Code = reply.Err
		c.role.note(charge)
		if o == Done {
			c.take(name, charge)
		}
	}
}

// take notes what a request has done.
func (c *charger) take(name string, charge Charge) {
	switch charge.More {
	case 1:
		c.names = append(c.names, name)
	case -1:
		for i, other := range c.names {
			if other == name {
				c.names = append(c.names[:i:i], c.names[i+1:]...)
				break
			}
		}
	}
	c.bytes[name] += charge.MoreBytes
}

// note notes a charge.
func (q *quotas) note(c Charge) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.charges = append(q.charges, c)
}

// Check implements Role.
func (q *quotas) Check(trees []Tree) {
	CheckCharges(q.charges, q.violated)
	for _, tree := range trees {
		for client := range q.Clients {
			CheckStats(tree, q.folder(client), q.violated)
		}
	}
}

// CheckCharges sees to it that what would be above a hard limit is refused, and nothing else.
func CheckCharges(all []Charge, violated func(string, ...any)) {
	for _, c := range all {
		over := c.More > 0 && c.Count+c.More > quotaCount || c.MoreBytes != 0 && c.Bytes+c.MoreBytes > quotaBytes
		if over != (c.Code == jute.QuotaExceeded) {
			violated("above the limits of %d znodes and %d bytes: %v, and it was answered with %v: %+v",
				quotaCount, quotaBytes, over, c.Code, c)
		}
	}
}

// CheckStats sees to it that the counts of a path's quota are those of its subtree.
func CheckStats(tree Tree, path string, violated func(string, ...any)) {
	count, bytes := 0, 0
	for at, node := range tree { // order: a sum
		if at == path || strings.HasPrefix(at, path+"/") {
			count, bytes = count+1, bytes+len(node.Data)
		}
	}
	stats := tree[quotaOf(path)+"/zookeeper_stats"].Data
	if want := fmt.Sprintf("count=%d,bytes=%d", count, bytes); stats != want {
		violated("%s holds %s, and its quota says %q", path, want, stats)
	}
}
