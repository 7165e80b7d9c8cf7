// Package fakeserver is a server of the ZooKeeper protocol for the tests of the load generator: a map of paths, no
// sessions that expire, no versions and no ACLs. It owns nothing outside memory, knows nothing of loads, and its
// faults are switched on by its fields. Invariant: replies of a connection come in the order of its requests, unless
// a fault says otherwise.
package fakeserver

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/jute"
)

// Faults are what a Server does wrong. They are set before Start.
type Faults struct {
	// Stall keeps every connection waiting for so long, once, before its 20th request.
	Stall     time.Duration
	Refuse    bool                  // close every connection instead of answering its handshake
	WrongXid  bool                  // answer getData with another xid
	Codes     map[jute.Op]jute.Code // answer these requests with an error
	CutAfter  int                   // close a connection after so many requests; 0 is never
	LongReply bool                  // answer getData with a frame longer than any client takes
	Asked     func(jute.Op)         // called for each request, before it is answered; no fault. May be nil
}

// Server is a running fake.
type Server struct {
	Addr string

	faults   Faults
	listener net.Listener
	wg       sync.WaitGroup
	mu       struct {
		sync.Mutex
		nodes    map[string][]byte
		watchers map[string][]*conn
		conns    map[net.Conn]struct{}
		ops      map[jute.Op]int
		last     jute.SessionID
		sequence int // of the last sequential znode
		sessions map[jute.SessionID]struct{}
		down     bool
	}
}

// conn is one connection; writes to w are under mu.
type conn struct {
	mu sync.Mutex
	w  net.Conn
}

// Start starts a fake that ends with the test.
func Start(tb testing.TB, faults Faults) *Server {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{Addr: l.Addr().String(), faults: faults, listener: l}
	s.mu.nodes = map[string][]byte{"/": nil}
	s.mu.watchers = map[string][]*conn{}
	s.mu.conns = map[net.Conn]struct{}{}
	s.mu.ops = map[jute.Op]int{}
	s.mu.sessions = map[jute.SessionID]struct{}{}
	s.wg.Go(s.accept)
	tb.Cleanup(func() {
		_ = l.Close() // ends accept
		s.mu.Lock()
		for nc := range s.mu.conns { // all of them, in whatever order
			_ = nc.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

// Down cuts all connections and serves none until it is called with false.
func (s *Server) Down(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.down = down
	for nc := range s.mu.conns { // all of them, in whatever order
		_ = nc.Close()
		delete(s.mu.conns, nc)
	}
}

// Nodes returns the number of znodes, the root included.
func (s *Server) Nodes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.nodes)
}

// Count returns how many requests of that kind have come.
func (s *Server) Count(op jute.Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.ops[op]
}

func (s *Server) accept() {
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		if s.mu.down {
			_ = nc.Close()
		}
		s.mu.conns[nc] = struct{}{}
		s.mu.Unlock()
		s.wg.Go(func() {
			s.serve(nc)
			_ = nc.Close()
		})
	}
}

// Sessions returns how many sessions were not closed.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.sessions)
}

// session is the one that a handshake asks for: a new one, or one that is there.
func (s *Server) session(asked jute.SessionID) jute.SessionID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if asked == 0 {
		s.mu.last++
		asked = s.mu.last
		s.mu.sessions[asked] = struct{}{}
	}
	return asked
}

func (s *Server) serve(nc net.Conn) {
	r, c := bufio.NewReader(nc), &conn{w: nc}
	payload, err := readFrame(r)
	if err != nil || s.faults.Refuse {
		return
	}
	d := jute.NewDecoder(payload)
	var request jute.ConnectRequest
	request.Decode(&d)
	session := s.session(request.SessionID)
	response := jute.ConnectResponse{
		TimeoutMillis: 40_000, SessionID: session, Passwd: make([]byte, 16), HasReadOnly: true,
	}
	c.send(response.Append)
	for n := 1; ; n++ {
		payload, err := readFrame(r)
		if err != nil || s.faults.CutAfter == n {
			return
		}
		if n == 20 && s.faults.Stall > 0 {
			<-time.After(s.faults.Stall)
		}
		d := jute.NewDecoder(payload)
		var header jute.RequestHeader
		header.Decode(&d)
		if header.Op == jute.OpCloseSession {
			s.mu.Lock()
			delete(s.mu.sessions, session)
			s.mu.Unlock()
		}
		if d.Err() != nil || !s.answer(c, header, &d) {
			return
		}
	}
}

// answer answers one request and reports whether more may come.
func (s *Server) answer(c *conn, header jute.RequestHeader, d *jute.Decoder) bool {
	if s.faults.Asked != nil {
		s.faults.Asked(header.Op)
	}
	s.mu.Lock()
	s.mu.ops[header.Op]++
	code, body, changed := s.apply(c, header.Op, d)
	var watchers []*conn
	if changed != "" {
		watchers = append(watchers, s.mu.watchers[changed]...)
	}
	s.mu.Unlock()
	for _, w := range watchers {
		event := jute.WatcherEvent{Type: jute.EventNodeDataChanged, State: jute.StateConnected, Path: changed}
		head := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: -1}
		w.send(func(b []byte) []byte { return event.Append(head.Append(b)) })
	}
	if forced, ok := s.faults.Codes[header.Op]; ok {
		code, body = forced, nil
	}
	reply := jute.ReplyHeader{Xid: header.Xid, Zxid: 1, Err: code}
	if header.Op == jute.OpGetData && s.faults.WrongXid {
		reply.Xid += 1000
	}
	if header.Op == jute.OpGetData && s.faults.LongReply {
		_, _ = c.w.Write([]byte{0x7f, 0xff, 0xff, 0xff}) // the client leaves
		return true
	}
	c.send(func(b []byte) []byte { return append(reply.Append(b), body...) })
	return header.Op != jute.OpCloseSession
}

// apply does what a request says under the server's lock; changed is the path whose data changed.
func (s *Server) apply(c *conn, op jute.Op, d *jute.Decoder) (code jute.Code, body []byte, changed string) {
	if op == jute.OpMulti {
		return s.multi(c, d)
	}
	if op == jute.OpPing || op == jute.OpCloseSession {
		return jute.OK, nil, ""
	}
	var data []byte
	var path string
	if op == jute.OpSetData || op == jute.OpCreate {
		var r jute.SetDataRequest
		if op == jute.OpSetData {
			r.Decode(d)
		} else {
			var create jute.CreateRequest
			create.Decode(d)
			r.Path, r.Data = create.Path, create.Data
			if create.Flags.Sequential() {
				s.mu.sequence++
				r.Path += strconv.Itoa(s.mu.sequence)
			}
		}
		path, data = strings.Clone(r.Path), append([]byte(nil), r.Data...)
	} else {
		var r jute.PathRequest
		r.Decode(d)
		path = strings.Clone(r.Path)
	}
	old, ok := s.mu.nodes[path]
	if op == jute.OpCreate {
		if ok {
			return jute.NodeExists, nil, ""
		}
		s.mu.nodes[path] = data
		return jute.OK, jute.AppendString(nil, path), ""
	}
	if !ok {
		return jute.NoNode, nil, ""
	}
	return s.onNode(c, op, path, old, data)
}

// onNode does a request on a znode that is there.
func (s *Server) onNode(c *conn, op jute.Op, path string, old, data []byte) (jute.Code, []byte, string) {
	var stat jute.Stat
	switch op {
	case jute.OpSetData:
		s.mu.nodes[path] = data
		return jute.OK, stat.Append(nil), path
	case jute.OpGetData:
		return jute.OK, stat.Append(jute.AppendBuffer(nil, old)), ""
	case jute.OpExists:
		return jute.OK, stat.Append(nil), ""
	case jute.OpSync:
		return jute.OK, jute.AppendString(nil, path), ""
	case jute.OpAddWatch:
		s.mu.watchers[path] = append(s.mu.watchers[path], c)
		return jute.OK, jute.AppendInt(nil, 0), ""
	case jute.OpGetChildren:
		return jute.OK, jute.AppendUstrings(nil, s.children(path)), ""
	case jute.OpGetChildren2:
		return jute.OK, stat.Append(jute.AppendUstrings(nil, s.children(path))), ""
	case jute.OpDelete:
		if len(s.children(path)) > 0 {
			return jute.NotEmpty, nil, ""
		}
		delete(s.mu.nodes, path)
		return jute.OK, nil, ""
	default:
		return jute.Unimplemented, nil, ""
	}
}

func (s *Server) multi(c *conn, d *jute.Decoder) (jute.Code, []byte, string) {
	walk := jute.NewMultiDecoder(d)
	for walk.Next() {
		s.mu.ops[-walk.Header().Type]++ // counted apart from requests
		if code, _, _ := s.apply(c, walk.Header().Type, d); code != jute.OK {
			return code, nil, ""
		}
	}
	if d.Err() != nil {
		return jute.MarshallingError, nil, ""
	}
	return jute.OK, jute.AppendMultiEnd(nil), ""
}

func (s *Server) children(path string) []string {
	names := []string{}
	for other := range s.mu.nodes { // clients do not rely on the order
		if name, ok := strings.CutPrefix(other, path+"/"); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

func (c *conn) send(body func([]byte) []byte) {
	frame, mark := jute.BeginFrame(nil)
	frame = jute.EndFrame(body(frame), mark)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.w.Write(frame) // the reader sees that the client is gone
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	payload := make([]byte, min(binary.BigEndian.Uint32(size[:]), 16<<20))
	_, err := io.ReadFull(r, payload)
	return payload, err
}
