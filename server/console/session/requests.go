package session

import (
	"context"
	"slices"
	"strings"

	"zkd/jute"
)

// decode reads a record from the body of a reply.
func decode(body []byte, record interface{ Decode(*jute.Decoder) }) error {
	d := jute.NewDecoder(body)
	record.Decode(&d)
	return d.Err()
}

// Get reads a znode.
func (s *Session) Get(ctx context.Context, path string) ([]byte, jute.Stat, error) {
	request := jute.PathWatchRequest{Path: path}
	body, err := s.Do(ctx, jute.OpGetData, path, request.Append)
	if err != nil {
		return nil, jute.Stat{}, err
	}
	var response jute.GetDataResponse
	err = decode(body, &response)
	return response.Data, response.Stat, err
}

// Stat looks at a znode, without its data: for that no right is needed.
func (s *Session) Stat(ctx context.Context, path string) (jute.Stat, error) {
	request := jute.PathWatchRequest{Path: path}
	body, err := s.Do(ctx, jute.OpExists, path, request.Append)
	if err != nil {
		return jute.Stat{}, err
	}
	var response jute.StatResponse
	err = decode(body, &response)
	return response.Stat, err
}

// Stats looks at many znodes at once. One that is not there has ok false.
func (s *Session) Stats(ctx context.Context, paths []string) (stats []jute.Stat, ok []bool, err error) {
	s.use()
	answers := make([]chan reply, len(paths))
	for i, path := range paths {
		answers[i] = make(chan reply, 1) // the one reply
		request := jute.PathWatchRequest{Path: path}
		if err := s.send(0, jute.OpExists, request.Append, answers[i]); err != nil {
			return nil, nil, err
		}
	}
	stats, ok = make([]jute.Stat, len(paths)), make([]bool, len(paths))
	for i, answer := range answers {
		body, header, err := s.await(ctx, answer)
		if err != nil {
			return nil, nil, err
		}
		var response jute.StatResponse
		ok[i] = header.Err == jute.OK && decode(body, &response) == nil
		stats[i] = response.Stat
	}
	return stats, ok, nil
}

// Children lists a znode's children, by name, in no order.
func (s *Session) Children(ctx context.Context, path string) ([]string, jute.Stat, error) {
	request := jute.PathWatchRequest{Path: path}
	body, err := s.Do(ctx, jute.OpGetChildren2, path, request.Append)
	if err != nil {
		return nil, jute.Stat{}, err
	}
	var response jute.GetChildren2Response
	err = decode(body, &response)
	return response.Children, response.Stat, err
}

// ACL reads the ACL of a znode.
func (s *Session) ACL(ctx context.Context, path string) ([]jute.ACL, jute.Stat, error) {
	request := jute.PathRequest{Path: path}
	body, err := s.Do(ctx, jute.OpGetACL, path, request.Append)
	if err != nil {
		return nil, jute.Stat{}, err
	}
	var response jute.GetACLResponse
	err = decode(body, &response)
	return response.ACL, response.Stat, err
}

// Descendants counts what is below a znode; a server before 3.6 refuses.
func (s *Session) Descendants(ctx context.Context, path string) (int, error) {
	request := jute.PathRequest{Path: path}
	body, err := s.Do(ctx, jute.OpGetAllChildrenNumber, path, request.Append)
	if err != nil {
		return 0, err
	}
	var response jute.GetAllChildrenNumberResponse
	err = decode(body, &response)
	return int(response.TotalNumber), err
}

// Create is what is created.
type Create struct {
	Path string
	Data []byte
	ACL  []jute.ACL
	Mode jute.CreateMode
	TTL  jute.Millis // of a mode with one
}

// Create creates a znode and returns the path that it has got.
func (s *Session) Create(ctx context.Context, c *Create) (string, error) {
	op, record := jute.OpCreate2, (&jute.CreateRequest{Path: c.Path, Data: c.Data, ACL: c.ACL, Flags: c.Mode}).Append
	switch {
	case c.Mode == jute.ModeContainer:
		op = jute.OpCreateContainer
	case c.Mode.TTL():
		op = jute.OpCreateTTL
		record = (&jute.CreateTTLRequest{Path: c.Path, Data: c.Data, ACL: c.ACL, Flags: c.Mode, TTL: c.TTL}).Append
	}
	body, err := s.Do(ctx, op, c.Path, record)
	if err != nil {
		return "", err
	}
	var response jute.Create2Response
	err = decode(body, &response)
	return response.Path, err
}

// Set replaces the data of a znode of that version.
func (s *Session) Set(ctx context.Context, path string, data []byte, version jute.Version) (jute.Stat, error) {
	request := jute.SetDataRequest{Path: path, Data: data, Version: version}
	body, err := s.Do(ctx, jute.OpSetData, path, request.Append)
	if err != nil {
		return jute.Stat{}, err
	}
	var response jute.StatResponse
	err = decode(body, &response)
	return response.Stat, err
}

// SetACL replaces the ACL of a znode whose ACL has that version.
func (s *Session) SetACL(ctx context.Context, path string, acl []jute.ACL, version jute.Version) error {
	request := jute.SetACLRequest{Path: path, ACL: acl, Version: version}
	_, err := s.Do(ctx, jute.OpSetACL, path, request.Append)
	return err
}

// Delete deletes a znode of that version.
func (s *Session) Delete(ctx context.Context, path string, version jute.Version) error {
	request := jute.PathVersionRequest{Path: path, Version: version}
	_, err := s.Do(ctx, jute.OpDelete, path, request.Append)
	return err
}

// Reconfig changes the members of the ensemble, if its configuration has that version.
func (s *Session) Reconfig(ctx context.Context, joining, leaving string, version int64) ([]byte, error) {
	request := jute.ReconfigRequest{JoiningServers: joining, LeavingServers: leaving, CurConfigID: version}
	for field, text := range []string{joining, leaving, ""} { // what is not asked for is null, not empty
		if text == "" {
			request.Nulls |= 1 << field
		}
	}
	body, err := s.Do(ctx, jute.OpReconfig, "/zookeeper/config", request.Append)
	if err != nil {
		return nil, err
	}
	var response jute.GetDataResponse
	err = decode(body, &response)
	return response.Data, err
}

// Join is the path of a child.
func Join(parent, name string) string { return strings.TrimSuffix(parent, "/") + "/" + name }

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
	names, stat, err := s.Children(ctx, path)
	if err != nil {
		return nil, stat, err
	}
	slices.Sort(names)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err == nil {
		s.mu.list = &list{path, stat.Pzxid, stat.Cversion, names}
	}
	return names, stat, nil
}

// list is the children of a znode as they were.
type list struct {
	path     string
	pzxid    jute.Zxid
	cversion jute.Version
	names    []string
}

// Deletes deletes many znodes at once, of whatever version, and returns what has become of each.
func (s *Session) Deletes(ctx context.Context, paths []string) ([]jute.Code, error) {
	s.use()
	answers := make([]chan reply, len(paths))
	for i, path := range paths {
		answers[i] = make(chan reply, 1) // the one reply
		request := jute.PathVersionRequest{Path: path, Version: jute.AnyVersion}
		if err := s.send(0, jute.OpDelete, request.Append, answers[i]); err != nil {
			return nil, err
		}
	}
	codes := make([]jute.Code, len(paths))
	for i, answer := range answers {
		_, header, err := s.await(ctx, answer)
		if err != nil {
			return nil, err
		}
		codes[i] = header.Err
	}
	return codes, nil
}
