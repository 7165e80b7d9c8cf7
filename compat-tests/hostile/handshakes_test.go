package hostile_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "hostile")) }

// Settings of the flood.
const (
	floodSize   = 5000
	floodOthers = 300 // descriptors that both processes need besides
	closeWithin = 2 * time.Minute
)

// flooded is a port that is flooded, and how a healthy client connects to it.
type flooded struct {
	server *target.Server
	addr   string
	begun  [][]byte // what the handshakes begin with, and no more
	dial   client.DialFunc
}

// ports are those that are flooded.
var ports = []struct {
	name  string
	start func(t *testing.T) flooded
}{
	{"plain", startPlain},
	{"TLS", startTLS},
}

// startPlain starts a server without TLS.
func startPlain(t *testing.T) flooded {
	t.Helper()
	s := target.Start(t, target.Options{})
	hello, mark := jute.BeginFrame(nil)
	hello = jute.EndFrame((&jute.ConnectRequest{TimeoutMillis: 30000, Passwd: make([]byte, 16)}).Append(hello), mark)
	return flooded{server: s, addr: s.Addr, dial: new(net.Dialer).DialContext,
		begun: [][]byte{nil, hello[:1], hello[:3], hello[:len(hello)/2], []byte("ru"), {0, 0, 0x0f, 0xff}}}
}

// TestUnfinishedHandshakes has 5,000 connections that never finish their handshake: a healthy client connects, works
// and connects again beside them; in time all of them are closed, and the server has no descriptor of theirs left.
func TestUnfinishedHandshakes(t *testing.T) {
	for _, p := range ports {
		t.Run(p.name, func(t *testing.T) { unfinished(t, p.start(t)) })
	}
}

// unfinished floods one port.
func unfinished(t *testing.T, p flooded) {
	n, s := floodMax(t), p.server
	sockets := descriptors(t, s)
	healthy := connect(t, p)
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, nc := range conns {
			_ = nc.Close() // it may be closed
		}
	}()
	for i := range n {
		nc, err := net.DialTimeout("tcp", p.addr, closeWithin)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, nc)
		if _, err := nc.Write(p.begun[i%len(p.begun)]); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if i%500 == 0 {
			work(t, healthy)
		}
	}
	work(t, healthy)
	for range 3 {
		newcomer := connect(t, p)
		work(t, newcomer)
		end(t, newcomer)
	}
	for i, nc := range conns {
		if i%500 == 0 {
			work(t, healthy) // its session is not to expire on a slow machine
		}
		_ = nc.SetReadDeadline(time.Now().Add(closeWithin)) // an error shows with the read
		if _, err := io.Copy(io.Discard, nc); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("connection %d is not closed: %v", i, err)
		}
	}
	work(t, healthy)
	end(t, healthy)
	deadline := time.Now().Add(closeWithin)
	for descriptors(t, s) > sockets {
		if time.Now().After(deadline) {
			t.Fatalf("the server has %d sockets, %d before", descriptors(t, s), sockets)
		}
		if _, err := s.FourLetterWord("ruok"); err != nil { // takes a moment, too
			t.Fatal(err)
		}
	}
}

// connect opens a session.
func connect(t *testing.T, p flooded) *client.Conn {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Options{Addr: p.addr, Dial: p.dial, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Cut)
	return c
}

// end ends a session and its connection.
func end(t *testing.T, c *client.Conn) {
	t.Helper()
	if _, _, err := c.Do(jute.OpCloseSession, nil); err != nil {
		t.Error(err)
	}
	c.Cut()
}

// work writes and reads back.
func work(t *testing.T, c *client.Conn) {
	t.Helper()
	path := fmt.Sprintf("/work-%d", c.Session)
	acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}
	for _, step := range []struct {
		op     jute.Op
		record func([]byte) []byte
	}{
		{jute.OpCreate, (&jute.CreateRequest{Path: path, ACL: acl, Flags: jute.ModeEphemeral}).Append},
		{jute.OpSetData, (&jute.SetDataRequest{Path: path, Data: []byte("x")}).Append},
		{jute.OpDelete, (&jute.PathVersionRequest{Path: path, Version: 1}).Append},
	} {
		header, _, err := c.Do(step.op, step.record)
		if err != nil || header.Err != jute.OK {
			t.Fatalf("%v of the healthy client: %v, %v", step.op, header.Err, err)
		}
	}
}

// floodMax is floodSize, or as many as a process may open here.
func floodMax(t *testing.T) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < limit.Max { // Go raises it for itself already, but not beyond what is sensible
		raised := syscall.Rlimit{Cur: min(limit.Max, floodSize+floodOthers), Max: limit.Max}
		if raised.Cur > limit.Cur && syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) == nil {
			limit = raised
		}
	}
	if limit.Cur < floodSize+floodOthers {
		n := int(limit.Cur) - floodOthers
		t.Logf("%d connections only: a process may open no more than %d files", n, limit.Cur)
		return n
	}
	return floodSize
}

// descriptors counts the sockets of the server, 0 where the system does not say.
func descriptors(t *testing.T, s *target.Server) (n int) {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(s.PID()), "fd")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
