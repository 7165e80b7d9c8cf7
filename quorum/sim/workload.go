package sim

import (
	"fmt"
	"strings"

	"zkd/jute"
	"zkd/storage/schema"
)

// The znodes that clients use: registers, which are made and deleted, the parents of ephemerals and of sequential
// znodes, and names below them.
var (
	registers  = []string{"/r0", "/r1", "/r2", "/r3"}
	ephemerals = []string{"/e/0", "/e/1", "/e/2"}
)

// The parents.
const (
	ephemeralParent  = "/e"
	sequentialParent = "/s"
)

// Lists of permissions: everybody may do everything, or only who has proven to be the user.
var (
	openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}
	userACL = []jute.ACL{
		{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: "user:secret"}},
		{Perms: jute.PermRead, ID: jute.ID{Scheme: "world", ID: "anyone"}},
	}
)

// work is what an attached client does while there are faults.
func (c *client) work() {
	w := c.w
	if len(c.waits) >= 8 || w.asked >= w.profile.ops {
		return
	}
	switch n := w.rng.IntN(100); {
	case n < 40:
		c.ask(w.drawWrite())
	case n < 50: // several at once
		for range 2 + w.rng.IntN(4) {
			c.ask(w.drawWrite())
		}
	case n < 72:
		c.ask(w.drawRead())
	case n < 90:
		c.ask(&op{kind: jute.OpSync, path: draw(w, registers)})
	case n < 94 && w.profile.moves:
		c.conn.breakOff("the client moves")
	case n < 95 && w.profile.moves:
		c.ask(&op{kind: jute.OpCloseSession})
		c.attached = false
	case n < 96:
		c.silent = w.now + w.upTo(2*c.timeout)
	default: // it rests
	}
}

// ask makes a request, unless the client has just closed its session.
func (c *client) ask(o *op) {
	if c.attached {
		c.w.asked++
		c.request(o)
	}
}

// drawRead draws a read, that may register a watch.
func (w *world) drawRead() *op {
	o := &op{kind: draw(w, []jute.Op{jute.OpGetData, jute.OpExists, jute.OpGetChildren}), watch: w.chance(60)}
	switch {
	case o.kind == jute.OpGetChildren:
		o.path = draw(w, []string{"/", ephemeralParent, sequentialParent})
	case w.chance(10):
		o.path = schema.ConfigPath
	case w.chance(70):
		o.path = draw(w, registers)
	default:
		o.path = draw(w, ephemerals)
	}
	return o
}

// drawWrite draws a write.
func (w *world) drawWrite() *op {
	switch n := w.rng.IntN(100); {
	case n < 10:
		return w.create(draw(w, registers), jute.ModePersistent)
	case n < 40:
		return w.setData(draw(w, registers), w.drawVersion())
	case n < 50:
		return w.remove(draw(w, registers), w.drawVersion())
	case n < 60:
		return w.create(draw(w, ephemerals), jute.ModeEphemeral)
	case n < 65:
		return w.remove(draw(w, ephemerals), jute.AnyVersion)
	case n < 72:
		return w.create(sequentialParent+"/n", jute.ModePersistentSequential)
	case n < 78:
		return w.create(ephemeralParent+"/n", jute.ModeEphemeralSequential)
	case n < 82:
		return w.setACL(draw(w, registers))
	case n < 86:
		return w.create(draw(w, []string{ephemeralParent, sequentialParent}), jute.ModePersistent)
	default:
		return w.drawMulti()
	}
}

// drawVersion draws an expected version: mostly any.
func (w *world) drawVersion() jute.Version {
	if w.chance(60) {
		return jute.AnyVersion
	}
	return jute.Version(w.rng.IntN(4))
}

// drawData draws data that no other write has.
func (w *world) drawData() string {
	w.values++
	return fmt.Sprintf("v%d %s", w.values, strings.Repeat("x", w.rng.IntN(w.profile.dataMax)))
}

// create returns a request for a znode.
func (w *world) create(path string, mode jute.CreateMode) *op {
	s := step{kind: jute.OpCreate, path: path, mode: mode, data: w.drawData()}
	return &op{kind: jute.OpCreate2, path: path, steps: []step{s}, body: s.append(nil)}
}

// setData returns a request to set data.
func (w *world) setData(path string, version jute.Version) *op {
	s := step{kind: jute.OpSetData, path: path, data: w.drawData(), version: version}
	return &op{kind: jute.OpSetData, path: path, steps: []step{s}, body: s.append(nil)}
}

// remove returns a request for a deletion.
func (w *world) remove(path string, version jute.Version) *op {
	s := step{kind: jute.OpDelete, path: path, version: version}
	return &op{kind: jute.OpDelete, path: path, steps: []step{s}, body: s.append(nil)}
}

// setACL returns a request for another list of permissions.
func (w *world) setACL(path string) *op {
	list := openACL
	if w.chance(40) {
		list = userACL
	}
	s := step{kind: jute.OpSetACL, path: path, version: jute.AnyVersion}
	r := jute.SetACLRequest{Path: path, ACL: list, Version: jute.AnyVersion}
	return &op{kind: jute.OpSetACL, path: path, steps: []step{s}, body: r.Append(nil)}
}

// drawMulti draws two or three steps that happen together or not at all, each on another znode.
func (w *world) drawMulti() *op {
	o := &op{kind: jute.OpMulti, path: "multi"}
	first := w.rng.IntN(len(registers))
	for i := range 2 + w.rng.IntN(2) {
		s := step{path: registers[(first+i)%len(registers)], version: jute.AnyVersion}
		switch n := w.rng.IntN(10); {
		case n < 5:
			s.kind, s.data = jute.OpSetData, w.drawData()
		case n < 6:
			s.kind, s.data = jute.OpCreate, w.drawData()
		case n < 7:
			s.kind = jute.OpDelete
		case n < 8:
			s.kind, s.mode, s.data = jute.OpCreate, jute.ModeEphemeralSequential, w.drawData()
			s.path = ephemeralParent + "/m"
		default:
			s.kind, s.version = jute.OpCheck, w.drawVersion()
		}
		o.steps = append(o.steps, s)
		o.body = (&jute.MultiHeader{Type: s.kind, Err: -1}).Append(o.body)
		o.body = s.append(o.body)
	}
	o.body = jute.AppendMultiEnd(o.body)
	return o
}

// append adds the step's record to b.
func (s *step) append(b []byte) []byte {
	switch s.kind {
	case jute.OpCreate:
		r := jute.CreateRequest{Path: s.path, Data: []byte(s.data), ACL: openACL, Flags: s.mode}
		return r.Append(b)
	case jute.OpSetData:
		r := jute.SetDataRequest{Path: s.path, Data: []byte(s.data), Version: s.version}
		return r.Append(b)
	default:
		r := jute.PathVersionRequest{Path: s.path, Version: s.version}
		return r.Append(b)
	}
}
