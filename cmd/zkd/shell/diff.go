package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zkd/jute/client/session"
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
	nodes chan *node // as many as one walk asks for ahead
	err   error      // when nodes is closed
}

// newSide begins a walk, whose paths are those below root.
func newSide(ctx context.Context, s *session.Session, root string) *side {
	one := &side{nodes: make(chan *node, walkAhead)}
	go func() {
		defer close(one.nodes)
		w := &walker{session: s, data: true, acl: true, depth: -1}
		one.err = w.walk(ctx, root, func(n *node) error {
			below := *n // the walk goes on with n
			below.path = moved(n.path, root, "/")
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
			order = comparePaths(x.path, y.path)
		}
		var d *difference
		switch {
		case order < 0:
			d = &difference{Path: x.path, Only: "left"}
		case order > 0:
			d = &difference{Path: y.path, Only: "right"}
		default:
			if what := differs(x, y); len(what) > 0 {
				d = &difference{Path: x.path, What: what}
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
func differs(x, y *node) (what []string) {
	if x.denied || y.denied {
		return []string{"not readable"}
	}
	if !bytes.Equal(x.data, y.data) || (x.data == nil) != (y.data == nil) {
		what = append(what, fmt.Sprintf("data of %d and %d bytes", len(x.data), len(y.data)))
	}
	if !slices.Equal(x.acl, y.acl) {
		what = append(what, "ACL")
	}
	if x.ephemeral() != y.ephemeral() {
		what = append(what, x.kind()+" and "+y.kind())
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
