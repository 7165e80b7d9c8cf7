package shell

import (
	"context"
	"strings"

	"zkd/jute"
	"zkd/jute/client/session"
)

// Bounds of one multi: servers take requests of jute.maxbuffer, 1 MiB less one byte, and answer each operation.
const (
	multiBytesMax = 512 << 10
	multiOpsMax   = 500
	opBytes       = 100 // of one operation beside its path, data and ACL, at the most that is usual
)

// batch gathers operations and does them, as many at a time as fit.
type batch struct {
	ctx     context.Context //nolint:containedctx // a batch is over with its command
	session *session.Session
	ops     []session.Op
	bytes   int
}

func opSize(path string, data []byte, acl []jute.ACL) int {
	size := opBytes + len(path) + len(data)
	for _, a := range acl {
		size += 12 + len(a.ID.Scheme) + len(a.ID.ID)
	}
	return size
}

// add takes an operation of a size.
func (b *batch) add(op session.Op, size int) error {
	if len(b.ops) > 0 && (b.bytes+size > multiBytesMax || len(b.ops) >= multiOpsMax) {
		if err := b.flush(); err != nil {
			return err
		}
	}
	b.ops, b.bytes = append(b.ops, op), b.bytes+size
	return nil
}

// flush does what was gathered.
func (b *batch) flush() error {
	if len(b.ops) == 0 {
		return nil
	}
	err := b.session.Multi(b.ctx, b.ops)
	b.ops, b.bytes = b.ops[:0], 0
	return err
}

// moved is the path of a znode below from, when from has become to.
func moved(path, from, to string) string {
	rest := strings.TrimPrefix(path, from)
	if from == "/" {
		rest = path
	}
	if to == "/" {
		to = ""
	}
	if rest == "" || rest == "/" {
		if to == "" {
			return "/"
		}
		return to
	}
	return to + rest
}

// inside tells whether a path is another one or below it.
func inside(path, of string) bool {
	return path == of || of == "/" || strings.HasPrefix(path, of+"/")
}

// twoPaths are the first two words.
func twoPaths(c *call) (from, to string, err error) {
	from, to = c.args[1], c.args[2]
	if err := checkPath(from); err != nil {
		return "", "", err
	}
	return from, to, checkPath(to)
}

// otherSession is the session that -to asks for: the shell's own without it. close ends it.
func otherSession(c *call) (s *session.Session, close func(), err error) {
	connect, given := c.values["to"]
	if !given {
		return c.session, func() {}, nil
	}
	s, err = c.o.Open(connect, func(session.Event) {}, c.onTrouble)
	if err != nil {
		return nil, nil, err
	}
	return s, func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		s.Close(ctx)
	}, nil
}

// runCp copies znodes, with data and ACL.
func runCp(c *call) error {
	from, to, err := twoPaths(c)
	if err != nil {
		return err
	}
	target, done, err := otherSession(c)
	if err != nil {
		return err
	}
	defer done()
	if target == c.session && inside(to, from) {
		return failed("%s is in %s: it would be copied into itself", to, from)
	}
	w := &walker{session: c.session, data: true, acl: true, depth: 0}
	if c.has("r") {
		w.depth = -1
	}
	into := &batch{ctx: c.ctx, session: target}
	copied, skipped := 0, 0
	denied := denials{call: c}
	err = w.walk(c.ctx, from, func(n *node) error {
		denied.note(n)
		if n.denied {
			return nil
		}
		if n.depth == 0 && !c.has("r") && n.stat.NumChildren > 0 {
			return failed("%s has children: cp -r copies them, too", from)
		}
		if n.ephemeral() { // it belongs to a session, and its copy could not
			skipped++
			c.err.print("ephemeral, not copied: " + c.name(n.path) + "\n")
			return nil
		}
		path := moved(n.path, from, to)
		copied++
		return into.add(session.CreateOp(path, session.NewNode{Data: n.data, ACL: n.acl}),
			opSize(path, n.data, n.acl))
	})
	if err == nil {
		err = into.flush()
	}
	if err != nil {
		return answered(err, "null")
	}
	if err := c.emit(map[string]int{"copied": copied, "skipped": skipped}, func() {
		c.Shell.line(itoa(copied) + " znodes copied")
	}); err != nil {
		return err
	}
	return denied.err()
}

// runMv moves znodes: in one multi where they fit in one, so that it is done whole or not at all, and nobody sees both.
func runMv(c *call) error {
	from, to, err := twoPaths(c)
	if err != nil {
		return err
	}
	if inside(to, from) || from == "/" {
		return failed("%s is in %s: it cannot be moved into itself", to, from)
	}
	var nodes []*node
	size := 0
	w := &walker{session: c.session, data: true, acl: true, depth: -1}
	err = w.walk(c.ctx, from, func(n *node) error {
		switch {
		case n.denied:
			return &session.Error{Code: jute.NoAuth, Path: n.path}
		case n.ephemeral():
			return failed("%s is ephemeral: it belongs to session %s, and cannot be moved", n.path,
				sessionText(n.stat.EphemeralOwner))
		}
		nodes = append(nodes, n)
		size += opSize(moved(n.path, from, to), n.data, n.acl) + opSize(n.path, nil, nil)
		return nil
	})
	if err != nil {
		return answered(err, "null")
	}
	whole := size <= multiBytesMax && 2*len(nodes) <= multiOpsMax
	if !whole {
		c.err.print("too much for one multi: copied and then deleted, in pieces\n")
	}
	if err := moveNodes(c, nodes, from, to, whole); err != nil {
		return answered(err, "null")
	}
	return c.emit(map[string]any{"moved": len(nodes), "atomic": whole}, func() {
		c.Shell.line(itoa(len(nodes)) + " znodes moved")
	})
}

// moveNodes makes the znodes at their new place and deletes them where they were, if they are still as they were read.
func moveNodes(c *call, nodes []*node, from, to string, whole bool) error {
	var ops []session.Op
	pieces := &batch{ctx: c.ctx, session: c.session}
	do := func(op session.Op, size int) error {
		if whole {
			ops = append(ops, op)
			return nil
		}
		return pieces.add(op, size)
	}
	for _, n := range nodes {
		path := moved(n.path, from, to)
		node := session.NewNode{Data: n.data, ACL: n.acl}
		if err := do(session.CreateOp(path, node), opSize(path, n.data, n.acl)); err != nil {
			return err
		}
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		if err := do(session.DeleteOp(n.path, n.stat.Version), opSize(n.path, nil, nil)); err != nil {
			return err
		}
	}
	if whole {
		return c.session.Multi(c.ctx, ops)
	}
	return pieces.flush()
}
