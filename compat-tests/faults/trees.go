package faults

import (
	"fmt"
	"maps"
	"slices"

	"zkd/jute"
)

// Znode is one znode of a Tree.
type Znode struct {
	Data string
	Stat jute.Stat
}

// String is the znode for people: long data is cut short.
func (z Znode) String() string {
	const most = 100
	if len(z.Data) > most {
		return fmt.Sprintf("%q... of %d bytes %+v", z.Data[:most], len(z.Data), z.Stat)
	}
	return fmt.Sprintf("%q %+v", z.Data, z.Stat)
}

// Tree is all that one server holds, by path.
type Tree map[string]Znode

// ReadTree reads the tree below and with root on the server that s is connected to, after a sync.
func ReadTree(s *Session, root string) (Tree, error) {
	if _, err := s.Sync(root); err != nil {
		return nil, err
	}
	tree := Tree{}
	for todo := []string{root}; len(todo) > 0; {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		reply, data, stat, err := s.GetData(path, false)
		if err != nil || reply.Err == jute.NoNode {
			if err != nil {
				return nil, err
			}
			continue // deleted since its parent was listed
		}
		tree[path] = Znode{data, stat}
		reply, names, _, err := s.Children(path, false)
		if err != nil || reply.Err != jute.OK && reply.Err != jute.NoNode {
			return nil, fmt.Errorf("list %s: %v, %w", path, reply.Err, err)
		}
		for _, name := range names {
			if path == "/" {
				path = ""
			}
			todo = append(todo, path+"/"+name)
		}
	}
	// Without reconfiguration ZooKeeper does not replicate it: each server makes its own at its start.
	delete(tree, "/zookeeper/config")
	return tree, nil
}

// differencesMax bounds the differences of two trees that are told.
const differencesMax = 10

// CompareTrees returns in what two servers differ, a line each.
func CompareTrees(a, b Tree) []string {
	var found []string
	paths := maps.Clone(a)
	maps.Copy(paths, b)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		here, isHere := a[path]
		there, isThere := b[path]
		if (here != there || isHere != isThere) && len(found) < differencesMax {
			found = append(found, fmt.Sprintf("%s: %v %+v here, %v %+v there", path, isHere, here, isThere, there))
		}
	}
	return found
}

// CheckKept sees to it that a server's tree has all that was acknowledged, and nothing that was undone or done by half.
func CheckKept(ops []Op, tree Tree, violated func(string, ...any)) {
	removed := map[string]Op{}
	for _, op := range ops {
		if op.Kind == Remove {
			removed[op.Path] = op
		}
	}
	for _, op := range ops {
		switch op.Kind {
		case Create, Sequential:
			path := op.Path
			if op.Kind == Sequential {
				path = op.Value
			}
			_, there := tree[path]
			remove, tried := removed[path]
			if op.Outcome == Done && !tried && !there {
				violated("lost: %v", op)
			}
			if tried && remove.Outcome == Done && there {
				violated("not deleted: %v", remove)
			}
		case Multi:
			_, a := tree[op.Path+"-a"]
			_, b := tree[op.Path+"-b"]
			if a != b || op.Outcome == Done && !a {
				violated("lost or by half (%v and %v are there): %v", a, b, op)
			}
		case Write, Swap:
			if op.Outcome == Done && (tree[op.Path].Stat.Mzxid < op.Mzxid || tree[op.Path].Stat.Version < op.Version) {
				violated("lost: %v; the server has %+v", op, tree[op.Path])
			}
		}
	}
}
