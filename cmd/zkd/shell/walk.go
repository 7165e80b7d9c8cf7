package shell

import (
	"context"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/jute/client/session"
)

// walkAhead is how many znodes of a level are asked for before those before them were seen: a walk takes as many round
// trips less. A guess: enough for a millisecond between client and server, and little memory.
const walkAhead = 32

// node is a znode as a walk comes by.
type node struct {
	path     string // whole
	depth    int    // below where the walk began
	last     bool   // of its brothers
	stat     jute.Stat
	children []string // sorted by their bytes
	data     []byte   // if it was asked for
	acl      []jute.ACL
	denied   bool // the session may not read it
	gone     bool // it was deleted meanwhile
	err      error
}

// name is the last part of the path.
func (n *node) name() string {
	if n.path == "/" {
		return "/"
	}
	return jute.BaseName(n.path)
}

// walker goes through a subtree in the order of paths, parents first. It holds the names of the children on the way to
// where it is, and no more.
type walker struct {
	session   *session.Session
	data, acl bool // whether they are asked for
	depth     int  // it goes no deeper; -1 for no bound
}

// walk calls f for each znode from path on. A znode that goes meanwhile is passed over; one that may not be read is
// given with its Stat alone, if that may be had.
func (w *walker) walk(ctx context.Context, path string, f func(*node) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	root := w.fetch(ctx, path, 0)
	switch {
	case root.gone:
		return &session.Error{Code: jute.NoNode, Path: path}
	case root.err != nil:
		return root.err
	}
	root.last = true
	return w.descend(ctx, root, f)
}

func (w *walker) descend(ctx context.Context, n *node, f func(*node) error) error {
	if err := f(n); err != nil {
		return err
	}
	if len(n.children) == 0 || w.depth >= 0 && n.depth >= w.depth {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ahead := make(chan chan *node, walkAhead) // the one who asks waits while it is full
	go func() {
		defer close(ahead)
		for _, child := range n.children {
			answer := make(chan *node, 1)
			select {
			case ahead <- answer:
			case <-ctx.Done():
				return
			}
			go func() { answer <- w.fetch(ctx, joined(n.path, child), n.depth+1) }()
		}
	}()
	seen := 0
	for answer := range ahead {
		child := <-answer
		seen++
		child.last = seen == len(n.children)
		switch {
		case child.err != nil:
			return child.err
		case child.gone:
			continue
		}
		if err := w.descend(ctx, child, f); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// fetch asks for all that is wanted of a znode.
func (w *walker) fetch(ctx context.Context, path string, depth int) *node {
	n := &node{path: path, depth: depth}
	n.children, n.stat, n.err = w.session.Children(ctx, path, false)
	slices.Sort(n.children)
	if n.err == nil && w.data {
		n.data, n.stat, n.err = w.session.Get(ctx, path, false)
	}
	if n.err == nil && w.acl {
		n.acl, _, n.err = w.session.ACL(ctx, path)
	}
	if session.CodeOf(n.err) == jute.NoAuth {
		n.denied = true
		if n.stat, n.err = w.session.Exists(ctx, path, false); session.CodeOf(n.err) == jute.NoAuth {
			n.err = nil // not even that
		}
	}
	if session.CodeOf(n.err) == jute.NoNode {
		n.gone, n.err = true, nil
	}
	return n
}

// comparePaths is the order of a walk: by the parts of the path.
func comparePaths(a, b string) int {
	if a == b {
		return 0
	}
	return slices.Compare(strings.Split(strings.Trim(a, "/"), "/"), strings.Split(strings.Trim(b, "/"), "/"))
}

// kind is what a server tells a client of a znode's kind: containers and znodes with a TTL look like any other
// (org.apache.zookeeper.server.DataNode.copyStat).
func (n *node) kind() string {
	if n.ephemeral() {
		return "ephemeral"
	}
	return "persistent"
}

// ephemeral tells whether a znode goes with its session.
func (n *node) ephemeral() bool { return n.stat.EphemeralOwner != 0 }

// denials counts what a walk may not read, and says so.
type denials struct {
	call  *call
	count int
}

// note tells of a znode that was denied.
func (d *denials) note(n *node) {
	if n.denied {
		d.count++
		d.call.err.print("Insufficient permission : " + d.call.name(n.path) + "\n")
	}
}

// err is the error of a walk that has not seen all.
func (d *denials) err() error {
	if d.count == 0 {
		return nil
	}
	return failed("%d znodes may not be read", d.count)
}
