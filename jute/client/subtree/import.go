package subtree

import (
	"context"
	"fmt"

	"zkd/jute"
	"zkd/jute/client/session"
)

// Importer makes the znodes of an export. Flush ends it.
type Importer struct {
	Batch

	Root      string // what the root of the export becomes
	Overwrite bool   // a znode that is there gets the data and the ACL; else it is an error
	Made      int
	Kept      int // ephemerals, which are not made
}

// Make makes a znode, or has it wait for others to be made with it.
func (i *Importer) Make(ctx context.Context, e *Entry) error {
	if e.Ephemeral != "" {
		i.Kept++
		return nil
	}
	n, err := e.NewNode()
	if err != nil {
		return err
	}
	path := Moved(e.Path, "/", i.Root)
	if !jute.ValidPath(path) {
		return fmt.Errorf("%q is no path", path)
	}
	i.Made++
	if !i.Overwrite {
		return i.Add(ctx, session.CreateOp(path, n), OpSize(path, n.Data, n.ACL))
	}
	_, err = i.Session.Create(ctx, path, n)
	if session.CodeOf(err) == jute.NodeExists {
		if _, err = i.Session.Set(ctx, path, n.Data, jute.AnyVersion); err == nil {
			_, err = i.Session.SetACL(ctx, path, n.ACL, jute.AnyVersion)
		}
	}
	if err == nil {
		i.done++
	}
	return err
}
