package session

import (
	"context"
	"slices"
	"sync"

	"zkd/jute"
)

// Data reads a znode.
func (s *Session) Data(ctx context.Context, path string) ([]byte, jute.Stat, error) {
	return s.Get(ctx, path, false)
}

// Stat looks at a znode, without its data: for that no right is needed.
func (s *Session) Stat(ctx context.Context, path string) (jute.Stat, error) {
	return s.Exists(ctx, path, false)
}

// Stats looks at many znodes at once. One that is not there has ok false.
func (s *Session) Stats(ctx context.Context, paths []string) (stats []jute.Stat, ok []bool, err error) {
	stats = make([]jute.Stat, len(paths))
	codes, err := s.together(paths, func(i int) error {
		var err error
		stats[i], err = s.Stat(ctx, paths[i])
		return err
	})
	for _, code := range codes {
		ok = append(ok, code == jute.OK)
	}
	return stats, ok, err
}

// Deletes deletes many znodes at once, of whatever version, and returns what has become of each.
func (s *Session) Deletes(ctx context.Context, paths []string) ([]jute.Code, error) {
	return s.together(paths, func(i int) error { return s.Delete(ctx, paths[i], jute.AnyVersion) })
}

// together asks for something of many znodes: requests that are made at once fill the pipe. It fails if any has no
// answer.
func (s *Session) together(paths []string, ask func(i int) error) ([]jute.Code, error) {
	errs := make([]error, len(paths))
	var all sync.WaitGroup
	for i := range paths {
		all.Go(func() { errs[i] = ask(i) })
	}
	all.Wait()
	codes := make([]jute.Code, len(paths))
	for i, err := range errs {
		if codes[i] = CodeOf(err); err != nil && codes[i] == jute.OK {
			return nil, err
		}
	}
	return codes, nil
}

// Names lists a znode's children, sorted. The list that was asked for last is kept while the children are the same, so
// that going from page to page of a long one costs a look at the znode each.
func (s *Session) Names(ctx context.Context, path string) ([]string, jute.Stat, error) {
	stat, err := s.Stat(ctx, path)
	if err != nil {
		return nil, stat, err
	}
	s.mu.Lock()
	if l := s.mu.list; l != nil && l.path == path && l.pzxid == stat.Pzxid && l.cversion == stat.Cversion {
		defer s.mu.Unlock()
		return l.names, stat, nil
	}
	s.mu.Unlock()
	names, now, err := s.Children(ctx, path, false)
	if err != nil {
		return nil, stat, err
	}
	stat = now
	slices.Sort(names)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.list = &list{path, stat.Pzxid, stat.Cversion, names}
	return names, stat, nil
}

// list is the children of a znode as they were.
type list struct {
	path     string
	pzxid    jute.Zxid
	cversion jute.Version
	names    []string
}
