package storage

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"zkd/jute"
)

// SubtreeSize is what a znode and all below it take.
type SubtreeSize struct {
	Path              string
	Znodes            int64 // the one at Path included
	Ephemerals        int64
	PathBytes         int64
	DataBytes         int64
	LargestData       int64  // the longest data of one znode
	LargestPath       string // which one
	NewestZxid        jute.Zxid
	Containers, Timed int64 // containers, and znodes with a time to live
}

// add counts a znode.
func (s *SubtreeSize) add(n *znode) {
	s.Znodes++
	s.PathBytes += int64(len(n.path))
	s.DataBytes += int64(n.dataLen)
	if int64(n.dataLen) > s.LargestData || s.LargestPath == "" {
		s.LargestData, s.LargestPath = int64(n.dataLen), n.path
	}
	s.NewestZxid = max(s.NewestZxid, n.mzxid)
	switch ownerKind(n.owner) {
	case ownerSession:
		s.Ephemerals++
	case ownerContainer:
		s.Containers++
	case ownerTTL:
		s.Timed++
	case ownerNone:
	}
}

// Sizes walks all znodes, verifies them as a backup would, and returns the sizes of the znodes down to the given depth
// (the root is 0) that have children, the largest first by bytes of paths and data. Memory goes with their number.
func (s *StateInspection) Sizes(depth int, progress func(znodes int64)) ([]SubtreeSize, error) {
	sizes := map[string]*SubtreeSize{}
	var tally backupTally
	err := s.store.eachZnode(func(n *znode, _ []byte) error {
		tally.add(n)
		if progress != nil && tally.znodes%backupProgressEvery == 0 {
			progress(tally.znodes)
		}
		if n.children > 0 && depthOf(n.path) <= depth {
			sizes[n.path] = &SubtreeSize{Path: n.path}
		}
		eachAncestor(n.path, depth, func(path string) {
			if size := sizes[path]; size != nil { // parents come before their children
				size.add(n)
			}
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	tally.sessions = s.info.Sessions
	if err := tally.compare(&s.info); err != nil {
		return nil, fmt.Errorf("%w: state store %s: %w", ErrDamaged, s.store.dir, err)
	}
	all := make([]SubtreeSize, 0, len(sizes))
	for _, size := range sizes { // order: sorted below
		all = append(all, *size)
	}
	slices.SortFunc(all, func(a, b SubtreeSize) int {
		return cmp.Or(cmp.Compare(b.PathBytes+b.DataBytes, a.PathBytes+a.DataBytes), cmp.Compare(a.Path, b.Path))
	})
	return all, nil
}

// depthOf is the number of names in path.
func depthOf(path string) int {
	if path == rootPath {
		return 0
	}
	return strings.Count(path, "/")
}

// eachAncestor calls f with path itself and all above it, as far as they are not deeper than depth.
func eachAncestor(path string, depth int, f func(path string)) {
	f(rootPath)
	if path == rootPath {
		return
	}
	at := 1
	for level := 1; level <= depth; level++ {
		next := strings.IndexByte(path[at:], '/')
		if next < 0 {
			f(path)
			return
		}
		f(path[:at+next])
		at += next + 1
	}
}

// Sessions calls f with each session, in the order of ids, and the paths of its ephemeral znodes, sorted.
func (s *StateInspection) Sessions(f func(session SessionInfo, ephemerals []string)) error {
	sessions, err := s.store.sessions()
	if err != nil {
		return err
	}
	owned := map[jute.SessionID][]string{}
	err = s.store.scan([]byte{kindEphemeral}, func(key, _ []byte) (bool, error) {
		id := jute.SessionID(binary.BigEndian.Uint64(key[1:]))
		owned[id] = append(owned[id], string(key[ephemeralPrefixBytes:]))
		return true, nil
	})
	if err != nil {
		return err
	}
	ids := make([]jute.SessionID, 0, len(sessions))
	for id := range sessions { // order: sorted below
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		f(*sessions[id], owned[id])
	}
	return nil
}
