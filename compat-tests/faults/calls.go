package faults

import (
	"fmt"
	"time"

	"zkd/jute"
)

// The requests of the runs, over Session.Do. A Reply with a code other than OK is no error.

var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}

// SetData writes data if the znode has version, and returns its new Stat.
func (s *Session) SetData(path, data string, version jute.Version) (Reply, jute.Stat, error) {
	request := jute.SetDataRequest{Path: path, Data: []byte(data), Version: version}
	reply, err := s.Do(jute.OpSetData, request.Append)
	return reply, statOf(reply, err), err
}

// GetData reads; with watch set it leaves a watch.
func (s *Session) GetData(path string, watch bool) (Reply, string, jute.Stat, error) {
	request := jute.PathWatchRequest{Path: path, Watch: watch}
	reply, err := s.Do(jute.OpGetData, request.Append)
	var response jute.GetDataResponse
	if err == nil && reply.Err == jute.OK {
		if err := decode(reply.Body, response.Decode); err != nil {
			return reply, "", jute.Stat{}, err
		}
		s.view(Watch{Path: path}, response.Stat.Mzxid, watch)
	}
	return reply, string(response.Data), response.Stat, err
}

// Children lists; with watch set it leaves a watch.
func (s *Session) Children(path string, watch bool) (Reply, []string, jute.Stat, error) {
	request := jute.PathWatchRequest{Path: path, Watch: watch}
	reply, err := s.Do(jute.OpGetChildren2, request.Append)
	var response jute.GetChildren2Response
	if err == nil && reply.Err == jute.OK {
		if err := decode(reply.Body, response.Decode); err != nil {
			return reply, nil, jute.Stat{}, err
		}
		s.view(Watch{Path: path, Child: true}, response.Stat.Pzxid, watch)
	}
	return reply, response.Children, response.Stat, err
}

// Exists asks for the Stat of a znode.
func (s *Session) Exists(path string) (Reply, jute.Stat, error) {
	request := jute.PathWatchRequest{Path: path}
	reply, err := s.Do(jute.OpExists, request.Append)
	return reply, statOf(reply, err), err
}

// Create creates and returns the path that the znode was given.
func (s *Session) Create(path, data string, mode jute.CreateMode) (Reply, string, error) {
	request := jute.CreateRequest{Path: path, Data: []byte(data), ACL: openACL, Flags: mode}
	reply, err := s.Do(jute.OpCreate, request.Append)
	var response jute.CreateResponse
	if err == nil && reply.Err == jute.OK {
		err = decode(reply.Body, response.Decode)
	}
	return reply, response.Path, err
}

// Plant creates a znode that is not there yet, however often the reply is lost.
func (s *Session) Plant(path, data string) error {
	reply, err := s.Insist(func() (Reply, error) {
		reply, _, err := s.Create(path, data, jute.ModePersistent)
		return reply, err
	})
	return planted(path, reply, err)
}

// planted says why a znode that was to be created is not there.
func planted(path string, reply Reply, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("create %s: %w", path, err)
	case reply.Err != jute.OK && reply.Err != jute.NodeExists:
		return fmt.Errorf("create %s: answered with %v", path, reply.Err)
	}
	return nil
}

// Delete deletes a znode of any version.
func (s *Session) Delete(path string) (Reply, error) {
	request := jute.PathVersionRequest{Path: path, Version: jute.AnyVersion}
	return s.Do(jute.OpDelete, request.Append)
}

// CreateAll creates znodes in one multi.
func (s *Session) CreateAll(paths ...string) (Reply, error) {
	return s.Do(jute.OpMulti, func(b []byte) []byte {
		for _, path := range paths {
			header := jute.MultiHeader{Type: jute.OpCreate, Err: -1}
			request := jute.CreateRequest{Path: path, ACL: openACL}
			b = request.Append(header.Append(b))
		}
		return jute.AppendMultiEnd(b)
	})
}

// AddAuth offers an identity.
func (s *Session) AddAuth(scheme, auth string) (Reply, error) {
	packet := jute.AuthPacket{Scheme: scheme, Auth: []byte(auth)}
	return s.exchange(jute.XidAuth, jute.OpAuth, packet.Append)
}

// Reconfig adds and removes servers, lines of a configuration and ids, and returns the new configuration.
func (s *Session) Reconfig(joining, leaving string) (Reply, string, error) {
	request := jute.ReconfigRequest{JoiningServers: joining, LeavingServers: leaving, CurConfigID: -1}
	if joining == "" {
		request.Nulls |= 1
	}
	if leaving == "" {
		request.Nulls |= 2
	}
	request.Nulls |= 4 // no whole configuration
	return s.ReconfigAs(&request)
}

// ReconfigTo replaces the whole configuration, lines with commas between them, and returns the new one.
func (s *Session) ReconfigTo(members string) (Reply, string, error) {
	request := jute.ReconfigRequest{NewMembers: members, CurConfigID: -1}
	request.Nulls |= 3 // nobody joins nor leaves
	return s.ReconfigAs(&request)
}

// ReconfigAs asks for another configuration, and returns the new one.
func (s *Session) ReconfigAs(request *jute.ReconfigRequest) (Reply, string, error) {
	reply, err := s.Do(jute.OpReconfig, request.Append)
	var response jute.GetDataResponse
	if err == nil && reply.Err == jute.OK {
		err = decode(reply.Body, response.Decode)
	}
	return reply, string(response.Data), err
}

// Sync waits until the server is where the leader was.
func (s *Session) Sync(path string) (Reply, error) {
	request := jute.PathRequest{Path: path}
	return s.Do(jute.OpSync, request.Append)
}

func statOf(reply Reply, err error) jute.Stat {
	var response jute.StatResponse
	if err == nil && reply.Err == jute.OK {
		_ = decode(reply.Body, response.Decode) // a short one shows as a version that cannot be
	}
	return response.Stat
}

func decode(body []byte, record func(*jute.Decoder)) error {
	d := jute.NewDecoder(body)
	record(&d)
	if d.Err() != nil {
		return fmt.Errorf("decode a reply: %w", d.Err())
	}
	return nil
}

// AddWatch sets a persistent watch, which stands on later connections, too.
func (s *Session) AddWatch(path string, recursive bool) (Reply, error) {
	request := jute.AddWatchRequest{Path: path, Mode: jute.WatchPersistent}
	if recursive {
		request.Mode = jute.WatchPersistentRecursive
	}
	reply, err := s.Do(jute.OpAddWatch, request.Append)
	if err == nil && reply.Err == jute.OK {
		s.Standing = append(s.Standing, Standing{path, recursive})
	}
	return reply, err
}

// CreateWith creates a znode with an ACL.
func (s *Session) CreateWith(path, data string, acl []jute.ACL) (Reply, error) {
	request := jute.CreateRequest{Path: path, Data: []byte(data), ACL: acl}
	return s.Do(jute.OpCreate, request.Append)
}

// SetACL replaces the ACL of a znode.
func (s *Session) SetACL(path string, acl []jute.ACL) (Reply, error) {
	request := jute.SetACLRequest{Path: path, ACL: acl, Version: jute.AnyVersion}
	return s.Do(jute.OpSetACL, request.Append)
}

// CreateTTL creates a znode with a time to live.
func (s *Session) CreateTTL(path string, ttl time.Duration) (Reply, error) {
	request := jute.CreateTTLRequest{Path: path, ACL: openACL, Flags: jute.ModePersistentTTL,
		TTL: jute.Millis(ttl.Milliseconds())}
	return s.Do(jute.OpCreateTTL, request.Append)
}

// CreateContainer creates a container.
func (s *Session) CreateContainer(path string) (Reply, error) {
	request := jute.CreateRequest{Path: path, ACL: openACL, Flags: jute.ModeContainer}
	return s.Do(jute.OpCreateContainer, request.Append)
}
