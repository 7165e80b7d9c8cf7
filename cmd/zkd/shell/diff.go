package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zkd/jute/client/session"
	"zkd/jute/client/subtree"
)

// difference is one between two subtrees.
type difference struct {
	Path string   `json:"path"`
	Only string   `json:"only,omitempty"` // left or right
	What []string `json:"what,omitempty"`
}

// errStopped ends a walk whose nodes nobody wants any more.
var errStopped = errors.New("stopped")

// side is a walk that another goroutine takes the nodes of.
type side struct {
	nodes chan *subtree.Node // as many as one walk asks for ahead
	err   error              // when nodes is closed
}

// newSide begins a walk, whose paths are those below root.
func newSide(ctx context.Context, s *session.Session, root string) *side {
	one := &side{nodes: make(chan *subtree.Node, subtree.Ahead)}
	go func() {
		defer close(one.nodes)
		w := &subtree.Walker{Session: s, Data: true, ACL: true, Depth: -1}
		one.err = w.Walk(ctx, root, func(n *subtree.Node) error {
			below := *n // the walk goes on with n
			below.Path = subtree.Moved(n.Path, root, "/")
			select {
			case one.nodes <- &below:
				return nil
			case <-ctx.Done():
				return errStopped
			}
		})
	}()
	return one
}

// runDiff compares two subtrees, of one server or of two.
func runDiff(c *call) error {
	left, right := c.args[1], c.args[1]
	if len(c.args) > 2 {
		right = c.args[2]
	} else if !c.has("to") {
		return c.command.usageError()
	}
	for _, path := range []string{left, right} {
		if err := checkPath(path); err != nil {
			return err
		}
	}
	target, done, err := otherSession(c)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(c.ctx)
	a, b := newSide(ctx, c.session, left), newSide(ctx, target, right)
	defer func() { // the walks end before the sessions do
		cancel()
		for range a.nodes {
		}
		for range b.nodes {
		}
	}()
	found, err := compareSides(c, a, b)
	if err != nil {
		return answered(err, "null")
	}
	if found > 0 {
		return failed("%d znodes differ", found)
	}
	return nil
}

// compareSides goes through two walks, which are in the same order.
func compareSides(c *call, a, b *side) (found int, err error) {
	x, moreA := <-a.nodes
	y, moreB := <-b.nodes
	for moreA || moreB {
		order := -1
		switch {
		case !moreA:
			order = 1
		case moreB:
			order = subtree.ComparePaths(x.Path, y.Path)
		}
		var d *difference
		switch {
		case order < 0:
			d = &difference{Path: x.Path, Only: "left"}
		case order > 0:
			d = &difference{Path: y.Path, Only: "right"}
		default:
			if what := differs(x, y); len(what) > 0 {
				d = &difference{Path: x.Path, What: what}
			}
		}
		if order <= 0 {
			x, moreA = <-a.nodes
		}
		if order >= 0 {
			y, moreB = <-b.nodes
		}
		if d == nil {
			continue
		}
		found++
		if err := c.emit(d, func() { showDifference(c, d) }); err != nil {
			return found, err
		}
	}
	return found, errors.Join(a.err, b.err)
}

// differs says in what two znodes differ that a copy would have, too.
func differs(x, y *subtree.Node) (what []string) {
	if x.Denied || y.Denied {
		return []string{"not readable"}
	}
	if !bytes.Equal(x.Data, y.Data) || (x.Data == nil) != (y.Data == nil) {
		what = append(what, fmt.Sprintf("data of %d and %d bytes", len(x.Data), len(y.Data)))
	}
	if !slices.Equal(x.ACL, y.ACL) {
		what = append(what, "ACL")
	}
	if x.Ephemeral() != y.Ephemeral() {
		what = append(what, x.Kind()+" and "+y.Kind())
	}
	return what
}

func showDifference(c *call, d *difference) {
	switch d.Only {
	case "left":
		c.Shell.line(c.paint(colorBad, "- "+c.name(d.Path)))
	case "right":
		c.Shell.line(c.paint(colorGood, "+ "+c.name(d.Path)))
	default:
		c.Shell.line(c.paint(colorNote, "~ "+c.name(d.Path)) + "  " + strings.Join(d.What, ", "))
	}
}
