package subtree

import (
	"context"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/jute/client/session"
)

// Ahead is how many znodes of a level are asked for before those before them were seen: a walk takes as many round
// trips less. A guess: enough for a millisecond between client and server, and little memory.
const Ahead = 32

// Node is a znode as a walk comes by.
type Node struct {
	Path     string // whole
	Depth    int    // below where the walk began
	Last     bool   // of its brothers
	Stat     jute.Stat
	Children []string // sorted by their bytes
	Data     []byte   // if it was asked for
	ACL      []jute.ACL
	Denied   bool // the session may not read it
	gone     bool // it was deleted meanwhile
	err      error
}

// Name is the last part of the path.
func (n *Node) Name() string {
	if n.Path == "/" {
		return "/"
	}
	return jute.BaseName(n.Path)
}

// Walker goes through a subtree in the order of paths, parents first. It holds the names of the children on the way to
// where it is, and no more.
type Walker struct {
	Session   *session.Session
	Data, ACL bool // whether they are asked for
	Depth     int  // it goes no deeper; -1 for no bound
	// After is where a walk before has ended: what comes up to there is passed over; "" for a whole walk.
	After string
}

// passed reports whether a znode was seen by the walk before, and all that is below it, too.
func (w *Walker) passed(path string) (seen, whole bool) {
	if w.After == "" || ComparePaths(path, w.After) > 0 {
		return false, false
	}
	return true, path != w.After && path != "/" && !strings.HasPrefix(w.After, path+"/")
}

// Walk calls f for each znode from path on. A znode that goes meanwhile is passed over; one that may not be read is
// given with its Stat alone, if that may be had.
func (w *Walker) Walk(ctx context.Context, path string, f func(*Node) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	root := w.fetch(ctx, path, 0)
	switch {
	case root.gone:
		return &session.Error{Code: jute.NoNode, Path: path}
	case root.err != nil:
		return root.err
	}
	root.Last = true
	return w.descend(ctx, root, f)
}

func (w *Walker) descend(ctx context.Context, n *Node, f func(*Node) error) error {
	if seen, _ := w.passed(n.Path); !seen {
		if err := f(n); err != nil {
			return err
		}
	}
	if len(n.Children) == 0 || w.Depth >= 0 && n.Depth >= w.Depth {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ahead := make(chan chan *Node, Ahead) // the one who asks waits while it is full
	go func() {
		defer close(ahead)
		for _, child := range n.Children {
			if _, whole := w.passed(jute.ChildPath(n.Path, child)); whole {
				continue
			}
			answer := make(chan *Node, 1)
			select {
			case ahead <- answer:
			case <-ctx.Done():
				return
			}
			go func() { answer <- w.fetch(ctx, jute.ChildPath(n.Path, child), n.Depth+1) }()
		}
	}()
	seen := 0
	for answer := range ahead {
		child := <-answer
		seen++
		child.Last = seen == len(n.Children)
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
func (w *Walker) fetch(ctx context.Context, path string, depth int) *Node {
	n := &Node{Path: path, Depth: depth}
	n.Children, n.Stat, n.err = w.Session.Children(ctx, path, false)
	slices.Sort(n.Children)
	if n.err == nil && w.Data {
		n.Data, n.Stat, n.err = w.Session.Get(ctx, path, false)
	}
	if n.err == nil && w.ACL {
		n.ACL, _, n.err = w.Session.ACL(ctx, path)
	}
	if session.CodeOf(n.err) == jute.NoAuth {
		n.Denied = true
		if n.Stat, n.err = w.Session.Exists(ctx, path, false); session.CodeOf(n.err) == jute.NoAuth {
			n.err = nil // not even that
		}
	}
	if session.CodeOf(n.err) == jute.NoNode {
		n.gone, n.err = true, nil
	}
	return n
}

// ComparePaths is the order of a walk: by the parts of the path.
func ComparePaths(a, b string) int {
	if a == b {
		return 0
	}
	return slices.Compare(strings.Split(strings.Trim(a, "/"), "/"), strings.Split(strings.Trim(b, "/"), "/"))
}

// Kind is what a server tells a client of a znode's kind: containers and znodes with a TTL look like any other
// (org.apache.zookeeper.server.DataNode.copyStat).
func (n *Node) Kind() string {
	if n.Ephemeral() {
		return "ephemeral"
	}
	return "persistent"
}

// Ephemeral tells whether a znode goes with its session.
func (n *Node) Ephemeral() bool { return n.Stat.EphemeralOwner != 0 }
