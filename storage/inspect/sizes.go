package inspect

import (
	"cmp"
	"fmt"
	"sort"
	"strings"

	"zkd/jute"
	"zkd/storage/disk"
	"zkd/storage/schema"
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
func (s *SubtreeSize) add(n *schema.Znode) {
	s.Znodes++
	s.PathBytes += int64(len(n.Path))
	s.DataBytes += int64(n.DataLen)
	if int64(n.DataLen) > s.LargestData || s.LargestPath == "" {
		s.LargestData, s.LargestPath = int64(n.DataLen), n.Path
	}
	s.NewestZxid = max(s.NewestZxid, n.Mzxid)
	switch schema.OwnerKind(n.Owner) {
	case schema.OwnerSession:
		s.Ephemerals++
	case schema.OwnerContainer:
		s.Containers++
	case schema.OwnerTTL:
		s.Timed++
	case schema.OwnerNone:
	}
}

// sizesProgressEvery is how many znodes lie between two calls of progress.
const sizesProgressEvery = 4096

// Sizes walks all znodes, verifies them as a backup would, and returns the sizes of the znodes down to the given depth
// (the root is 0) that have children, the largest first by bytes of paths and data. Memory goes with their number.
func (s *State) Sizes(depth int, progress func(znodes int64)) ([]SubtreeSize, error) {
	sizes := map[string]*SubtreeSize{}
	var tally schema.Tally
	err := s.r.Each(func(n *schema.Znode, _ []byte) error {
		tally.Add(n)
		if progress != nil && tally.Znodes%sizesProgressEvery == 0 {
			progress(tally.Znodes)
		}
		if n.Children > 0 && depthOf(n.Path) <= depth {
			sizes[n.Path] = &SubtreeSize{Path: n.Path}
		}
		eachAncestor(n.Path, depth, func(path string) {
			if size := sizes[path]; size != nil { // parents come before their children
				size.add(n)
			}
		})
		return nil
	}, func(*schema.SessionInfo) error { tally.Sessions++; return nil })
	if err != nil {
		return nil, err
	}
	if err := tally.Compare(&s.info); err != nil {
		return nil, fmt.Errorf("%w: state store %s: %w", disk.ErrDamaged, s.r.Dir(), err)
	}
	all := make([]SubtreeSize, 0, len(sizes))
	for _, size := range sizes { // order: sorted below
		all = append(all, *size)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(b.PathBytes+b.DataBytes, a.PathBytes+a.DataBytes), cmp.Compare(a.Path, b.Path)) < 0
	})
	return all, nil
}

// depthOf is the number of names in path.
func depthOf(path string) int {
	if path == schema.RootPath {
		return 0
	}
	return strings.Count(path, "/")
}

// eachAncestor calls f with path itself and all above it, as far as they are not deeper than depth.
func eachAncestor(path string, depth int, f func(path string)) {
	f(schema.RootPath)
	if path == schema.RootPath {
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
func (s *State) Sessions(f func(session schema.SessionInfo, ephemerals []string)) error {
	owned := map[jute.SessionID][]string{}
	err := s.r.Ephemerals(func(id jute.SessionID, path string) error {
		owned[id] = append(owned[id], path)
		return nil
	})
	if err != nil {
		return err
	}
	return s.r.Sessions(func(session *schema.SessionInfo) error {
		f(*session, owned[session.ID])
		return nil
	})
}
