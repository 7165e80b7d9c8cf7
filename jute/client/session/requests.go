package session

import (
	"context"
	"slices"
	"strings"
	"time"

	"zkd/jute"
)

// ConfigPath is where servers keep the members of the ensemble, for every chroot.
const ConfigPath = "/zookeeper/config"

// World lets everybody do everything.
func World() []jute.ACL {
	return []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}
}

// decode reads a reply.
func decode(body []byte, err error, record func(*jute.Decoder)) error {
	if err != nil {
		return err
	}
	d := jute.NewDecoder(body)
	record(&d)
	return d.Err()
}

// NewNode is what Create makes.
type NewNode struct {
	Data []byte // may be nil
	ACL  []jute.ACL
	Mode jute.CreateMode
	TTL  time.Duration // with a Mode of TTL
}

// Create makes a znode, and returns its path, which differs from path for a sequential one.
func (s *Session) Create(ctx context.Context, path string, n NewNode) (string, error) {
	op := jute.OpCreate
	switch {
	case n.Mode.TTL():
		op = jute.OpCreateTTL
	case n.Mode == jute.ModeContainer:
		op = jute.OpCreateContainer
	}
	body, err := s.do(ctx, op, path, func(b []byte) []byte { return appendCreate(b, op, s.above(path), n) }, nil)
	var created jute.CreateResponse
	err = decode(body, err, created.Decode)
	return s.below(strings.Clone(created.Path)), err
}

func appendCreate(b []byte, op jute.Op, path string, n NewNode) []byte {
	if op == jute.OpCreateTTL {
		r := jute.CreateTTLRequest{Path: path, Data: n.Data, ACL: n.ACL, Flags: n.Mode,
			TTL: jute.Millis(n.TTL.Milliseconds())}
		return r.Append(b)
	}
	r := jute.CreateRequest{Path: path, Data: n.Data, ACL: n.ACL, Flags: n.Mode}
	return r.Append(b)
}

// Delete deletes a znode of a version.
func (s *Session) Delete(ctx context.Context, path string, version jute.Version) error {
	request := jute.PathVersionRequest{Path: s.above(path), Version: version}
	_, err := s.do(ctx, jute.OpDelete, path, request.Append, nil)
	return err
}

// Exists returns the Stat of a znode. It fails with NoNode if there is none; a watch is set even so.
func (s *Session) Exists(ctx context.Context, path string, watch bool) (jute.Stat, error) {
	request := jute.PathWatchRequest{Path: s.above(path), Watch: watch}
	var done func(jute.ReplyHeader, []byte)
	if watch {
		done = func(header jute.ReplyHeader, _ []byte) {
			switch header.Err {
			case jute.OK:
				s.mu.watches.data[request.Path] = true
			case jute.NoNode:
				s.mu.watches.exist[request.Path] = true
			}
		}
	}
	body, err := s.do(ctx, jute.OpExists, path, request.Append, done)
	var found jute.StatResponse
	err = decode(body, err, found.Decode)
	return found.Stat, err
}

// Get returns the data of a znode, nil for null, and its Stat.
func (s *Session) Get(ctx context.Context, path string, watch bool) ([]byte, jute.Stat, error) {
	return s.get(ctx, path, s.above(path), watch)
}

// Config returns what Get does of ConfigPath, whatever the chroot is.
func (s *Session) Config(ctx context.Context, watch bool) ([]byte, jute.Stat, error) {
	return s.get(ctx, ConfigPath, ConfigPath, watch)
}

func (s *Session) get(ctx context.Context, path, above string, watch bool) ([]byte, jute.Stat, error) {
	request := jute.PathWatchRequest{Path: above, Watch: watch}
	body, err := s.do(ctx, jute.OpGetData, path, request.Append, s.watching(watch, s.mu.watches.data, above))
	var found jute.GetDataResponse
	err = decode(body, err, found.Decode)
	return found.Data, found.Stat, err
}

// watching is what notes a watch that a reply has set.
func (s *Session) watching(watch bool, set map[string]bool, above string) func(jute.ReplyHeader, []byte) {
	if !watch {
		return nil
	}
	return func(header jute.ReplyHeader, _ []byte) {
		if header.Err == jute.OK {
			set[above] = true
		}
	}
}

// Set writes the data of a znode of a version.
func (s *Session) Set(ctx context.Context, path string, data []byte, version jute.Version) (jute.Stat, error) {
	request := jute.SetDataRequest{Path: s.above(path), Data: data, Version: version}
	body, err := s.do(ctx, jute.OpSetData, path, request.Append, nil)
	var written jute.StatResponse
	err = decode(body, err, written.Decode)
	return written.Stat, err
}

// Children returns the names of a znode's children, in no order, and its Stat.
func (s *Session) Children(ctx context.Context, path string, watch bool) ([]string, jute.Stat, error) {
	request := jute.PathWatchRequest{Path: s.above(path), Watch: watch}
	body, err := s.do(ctx, jute.OpGetChildren2, path, request.Append,
		s.watching(watch, s.mu.watches.child, request.Path))
	var found jute.GetChildren2Response
	err = decode(body, err, found.Decode)
	return found.Children, found.Stat, err // views of body, which is ours
}

// ACL returns the ACL of a znode, and its Stat.
func (s *Session) ACL(ctx context.Context, path string) ([]jute.ACL, jute.Stat, error) {
	request := jute.PathRequest{Path: s.above(path)}
	body, err := s.do(ctx, jute.OpGetACL, path, request.Append, nil)
	var found jute.GetACLResponse
	err = decode(body, err, found.Decode)
	return found.ACL, found.Stat, err
}

// SetACL writes the ACL of a znode whose ACL has a version.
func (s *Session) SetACL(ctx context.Context, path string, acl []jute.ACL, version jute.Version) (jute.Stat, error) {
	request := jute.SetACLRequest{Path: s.above(path), ACL: acl, Version: version}
	body, err := s.do(ctx, jute.OpSetACL, path, request.Append, nil)
	var written jute.StatResponse
	err = decode(body, err, written.Decode)
	return written.Stat, err
}

// Sync waits until the session's server has all that was committed when it was asked.
func (s *Session) Sync(ctx context.Context, path string) error {
	request := jute.PathRequest{Path: s.above(path)}
	_, err := s.do(ctx, jute.OpSync, path, request.Append, nil)
	return err
}

// AddWatch sets a persistent watch.
func (s *Session) AddWatch(ctx context.Context, path string, mode jute.AddWatchMode) error {
	request := jute.AddWatchRequest{Path: s.above(path), Mode: mode}
	done := func(header jute.ReplyHeader, _ []byte) {
		if header.Err != jute.OK {
			return
		}
		if mode == jute.WatchPersistent {
			s.mu.watches.persistent[request.Path] = true
		} else {
			s.mu.watches.recursive[request.Path] = true
		}
	}
	_, err := s.do(ctx, jute.OpAddWatch, path, request.Append, done)
	return err
}

// RemoveWatches removes the session's watches of a kind on a path. It fails with NoWatcher if there are none. With
// local those are forgotten even if no server can be told.
func (s *Session) RemoveWatches(ctx context.Context, path string, kind jute.WatcherType, local bool) error {
	above := s.above(path)
	s.mu.Lock()
	there := s.mu.watches.has(kind, above)
	s.mu.Unlock()
	if !there {
		return &Error{Code: jute.NoWatcher, Path: path}
	}
	request := jute.WatcherTypeRequest{Path: above, Type: kind}
	_, err := s.do(ctx, jute.OpRemoveWatches, path, request.Append, nil)
	if err != nil && !local {
		return err
	}
	s.mu.Lock()
	removed := s.mu.watches.remove(kind, above)
	s.mu.Unlock()
	for _, each := range removed {
		s.tell(Event{Kind: EventWatchRemoved, State: Connected, Removed: each, Path: path, Zxid: -1})
	}
	return nil
}

// Ephemerals returns the paths of the session's ephemeral znodes that begin with a prefix. Servers take no heed of the
// chroot here, and nor do Java's clients.
func (s *Session) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	request := jute.PathRequest{Path: prefix}
	body, err := s.do(ctx, jute.OpGetEphemerals, "", request.Append, nil)
	var found jute.GetEphemeralsResponse
	err = decode(body, err, found.Decode)
	return found.Ephemerals, err
}

// Descendants returns how many znodes are below one.
func (s *Session) Descendants(ctx context.Context, path string) (int, error) {
	request := jute.PathRequest{Path: s.above(path)}
	body, err := s.do(ctx, jute.OpGetAllChildrenNumber, path, request.Append, nil)
	var found jute.GetAllChildrenNumberResponse
	err = decode(body, err, found.Decode)
	return int(found.TotalNumber), err
}

// WhoAmI returns the identities of the connection, in no order.
func (s *Session) WhoAmI(ctx context.Context) ([]jute.ClientInfo, error) {
	body, err := s.do(ctx, jute.OpWhoAmI, "", nil, nil)
	var found jute.WhoAmIResponse
	err = decode(body, err, found.Decode)
	return found.ClientInfo, err
}

// Reconfig changes the members of the ensemble, and returns the new configuration. "" and "" stand for null: either
// joining and leaving are given, or members.
func (s *Session) Reconfig(ctx context.Context, joining, leaving, members string, from int64) ([]byte, jute.Stat,
	error,
) {
	request := jute.ReconfigRequest{JoiningServers: joining, LeavingServers: leaving, NewMembers: members,
		CurConfigID: from}
	for i, text := range []string{joining, leaving, members} {
		if text == "" {
			request.Nulls |= 1 << i
		}
	}
	body, err := s.do(ctx, jute.OpReconfig, "", request.Append, nil)
	var found jute.GetDataResponse
	err = decode(body, err, found.Decode)
	return found.Data, found.Stat, err
}

// Op is one operation of a Multi.
type Op struct {
	op     jute.Op
	path   string
	record func(above string, b []byte) []byte
}

// CreateOp creates a znode.
func CreateOp(path string, n NewNode) Op {
	op := jute.OpCreate
	switch {
	case n.Mode.TTL():
		op = jute.OpCreateTTL
	case n.Mode == jute.ModeContainer:
		op = jute.OpCreateContainer
	}
	return Op{op, path, func(above string, b []byte) []byte { return appendCreate(b, op, above, n) }}
}

// DeleteOp deletes a znode of a version.
func DeleteOp(path string, version jute.Version) Op {
	return Op{jute.OpDelete, path, func(above string, b []byte) []byte {
		request := jute.PathVersionRequest{Path: above, Version: version}
		return request.Append(b)
	}}
}

// SetOp writes the data of a znode of a version.
func SetOp(path string, data []byte, version jute.Version) Op {
	return Op{jute.OpSetData, path, func(above string, b []byte) []byte {
		request := jute.SetDataRequest{Path: above, Data: data, Version: version}
		return request.Append(b)
	}}
}

// CheckOp wants a znode to have a version.
func CheckOp(path string, version jute.Version) Op {
	return Op{jute.OpCheck, path, func(above string, b []byte) []byte {
		request := jute.PathVersionRequest{Path: above, Version: version}
		return request.Append(b)
	}}
}

// Multi does all of the operations or none. It fails with the code and the path of the first that cannot be done.
func (s *Session) Multi(ctx context.Context, ops []Op) error {
	ops = slices.Clone(ops)
	body, err := s.do(ctx, jute.OpMulti, "", func(b []byte) []byte {
		for _, o := range ops {
			header := jute.MultiHeader{Type: o.op, Err: -1}
			b = o.record(s.above(o.path), header.Append(b))
		}
		return jute.AppendMultiEnd(b)
	}, nil)
	if err != nil {
		return err
	}
	return multiError(body, ops)
}

// multiError finds the first operation that has failed: those before it have OK, those after it RuntimeInconsistency.
func multiError(body []byte, ops []Op) error {
	d := jute.NewDecoder(body)
	results := jute.NewMultiDecoder(&d)
	for i := 0; i < len(ops) && results.Next(); i++ {
		if results.Header().Type != jute.OpError {
			return d.Err() // all were done
		}
		var one jute.ErrorResponse
		one.Decode(&d)
		if d.Err() == nil && one.Err != jute.OK {
			return &Error{Code: one.Err, Path: ops[i].path}
		}
	}
	return d.Err()
}

// Ping asks the session's server for a sign of life, and returns how long it has taken. It goes no further than that
// server.
func (s *Session) Ping(ctx context.Context) (time.Duration, error) {
	began := s.options.Now()
	request := jute.PathWatchRequest{Path: "/"}
	_, err := s.do(ctx, jute.OpExists, "/", request.Append, nil)
	return s.options.Now().Sub(began), err
}
