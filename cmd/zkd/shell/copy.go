package shell

import (
	"context"
	"strings"

	"zkd/jute"
	"zkd/jute/client/session"
	"zkd/jute/client/subtree"
)

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
	w := &subtree.Walker{Session: c.session, Data: true, ACL: true, Depth: 0}
	if c.has("r") {
		w.Depth = -1
	}
	into := &subtree.Batch{Session: target}
	copied, skipped := 0, 0
	denied := denials{call: c}
	err = w.Walk(c.ctx, from, func(n *subtree.Node) error {
		denied.note(n)
		if n.Denied {
			return nil
		}
		if n.Depth == 0 && !c.has("r") && n.Stat.NumChildren > 0 {
			return failed("%s has children: cp -r copies them, too", from)
		}
		if n.Ephemeral() { // it belongs to a session, and its copy could not
			skipped++
			c.err.print("ephemeral, not copied: " + c.name(n.Path) + "\n")
			return nil
		}
		path := subtree.Moved(n.Path, from, to)
		copied++
		return into.Add(c.ctx, session.CreateOp(path, session.NewNode{Data: n.Data, ACL: n.ACL}),
			subtree.OpSize(path, n.Data, n.ACL))
	})
	if err == nil {
		err = into.Flush(c.ctx)
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
	var nodes []*subtree.Node
	size := 0
	w := &subtree.Walker{Session: c.session, Data: true, ACL: true, Depth: -1}
	err = w.Walk(c.ctx, from, func(n *subtree.Node) error {
		switch {
		case n.Denied:
			return &session.Error{Code: jute.NoAuth, Path: n.Path}
		case n.Ephemeral():
			return failed("%s is ephemeral: it belongs to session %s, and cannot be moved", n.Path,
				jute.Hex(n.Stat.EphemeralOwner))
		}
		nodes = append(nodes, n)
		size += subtree.OpSize(subtree.Moved(n.Path, from, to), n.Data, n.ACL) + subtree.OpSize(n.Path, nil, nil)
		return nil
	})
	if err != nil {
		return answered(err, "null")
	}
	whole := size <= subtree.MultiBytes && 2*len(nodes) <= subtree.MultiOps
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
func moveNodes(c *call, nodes []*subtree.Node, from, to string, whole bool) error {
	var ops []session.Op
	pieces := &subtree.Batch{Session: c.session}
	do := func(op session.Op, size int) error {
		if whole {
			ops = append(ops, op)
			return nil
		}
		return pieces.Add(c.ctx, op, size)
	}
	for _, n := range nodes {
		path := subtree.Moved(n.Path, from, to)
		node := session.NewNode{Data: n.Data, ACL: n.ACL}
		if err := do(session.CreateOp(path, node), subtree.OpSize(path, n.Data, n.ACL)); err != nil {
			return err
		}
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		if err := do(session.DeleteOp(n.Path, n.Stat.Version), subtree.OpSize(n.Path, nil, nil)); err != nil {
			return err
		}
	}
	if whole {
		return c.session.Multi(c.ctx, ops)
	}
	return pieces.Flush(c.ctx)
}
