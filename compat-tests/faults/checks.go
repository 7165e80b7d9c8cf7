package faults

import (
	"fmt"
	"maps"
	"time"

	"github.com/anishathalye/porcupine"
)

// Check runs all checks on the history. tick is the servers' tickTime. syncs is told of syncs with their reads that are
// not linearizable, keep is given the picture of what has no order.
func (h *History) Check(tick time.Duration, syncs func(string, ...any), keep func(porcupine.LinearizationInfo)) {
	CheckRegisters(h.ops, false, h.Violated, keep)
	CheckRegisters(h.ops, true, syncs, keep)
	CheckVersions(h.ops, h.Violated)
	CheckZxids(h.ops, h.Violated)
	CheckSessions(h.ops, h.Violated)
	CheckOrder(h.ops, h.Violated)
	CheckNames(h.ops, h.Violated)
	CheckEphemerals(h.ephemerals, h.sightings, tick, h.Violated)
	CheckLives(h.lives, tick, h.Violated)
}

// CheckKept holds a server's tree against all that was acknowledged.
func (h *History) CheckKept(tree Tree) { CheckKept(h.ops, tree, h.Violated) }

// ReadServer reads the tree at and below path on the server that s is connected to, and notes what it tells of the
// registers and ephemerals of the round below root. id tells the server apart.
func (h *History) ReadServer(s *Session, id int, path, root string) (Tree, error) {
	began := s.o.Now()
	tree, err := ReadTree(s, path)
	if err != nil {
		return nil, fmt.Errorf("read the tree of server %d: %w", id, err)
	}
	if path != "/" { // with it are the quotas
		counts, err := ReadTree(s, quotaOf(path))
		if err != nil {
			return nil, fmt.Errorf("read the quotas of server %d: %w", id, err)
		}
		maps.Copy(tree, counts)
	}
	ended := s.o.Now()
	for i := range registers {
		at := registerPath(root, i)
		node := tree[at]
		h.Add(Op{
			Client: 100 + id, Kind: SyncRead, Path: at, Value: node.Data, Call: began, Ret: ended,
			Outcome: Done, Version: node.Stat.Version, Mzxid: node.Stat.Mzxid,
		})
	}
	for _, at := range h.paths {
		node, present := tree[at]
		h.See(Sighting{
			Path: at, Call: began, Ret: ended, Present: present, Owner: node.Stat.EphemeralOwner, Addr: s.Addr,
		})
	}
	return tree, nil
}

// Ephemerals is where the round below root has its ephemeral znodes.
func Ephemerals(root string) string { return ephemeralPath(root) }
