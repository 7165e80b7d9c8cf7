package hostile_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/authority"
	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/hostile"
	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// Settings of the attack on the ports for servers; docs/formats/peer.md draws the bytes.
const (
	answersWithin = 30 * time.Second
	zerosBytes    = 1 << 20
	stranger      = 9 // an id that nobody has
)

// forgedSnapshot is a stream of a state that is one file of zeros, far ahead of everybody.
func forgedSnapshot(t *testing.T, from, to int) []byte {
	t.Helper()
	header, err := hostile.SnapshotHeader(uint64(from), uint64(to), 1000, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(hostile.Snapshot(header, "000001.sst", make([]byte, zerosBytes))...)
}

// peerHello is what a server says first, to another one and in the name of a third.
func peerHello(from, to int, purpose byte) []byte {
	return hostile.Hello(uint64(from), uint64(to), 0xBAD, purpose)
}

// say sends bytes to a port for servers and returns the code and the rest of the answer. It waits until the other side
// hangs up.
func say(t *testing.T, addr string, b []byte) (code byte, rest []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answersWithin)); err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write(b) // it may be refused before the end
	said, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the server at %s keeps the connection", addr)
	}
	if len(said) < 13 {
		return 255, nil // a reset has taken it
	}
	return said[12], said[13:]
}

// TestSnapshotsOfStrangers sends each server of an ensemble, in the name of each other one and of one that nobody
// knows, a state that is one file of zeros: all are refused, none learns the cluster, the servers serve on, and start
// again. So it is where the servers use TLS and their ports take both, for a rolling change.
func TestSnapshotsOfStrangers(t *testing.T) {
	if target.Selected(t) != target.Zkd {
		t.Skip("the streams are those of zkd")
	}
	t.Run("plain", func(t *testing.T) { snapshotsOfStrangers(t, nil) })
	t.Run("portUnification", func(t *testing.T) {
		own := authority.New(t, "ours").Named("server")
		snapshotsOfStrangers(t, map[string]string{
			"sslQuorum": "true", "portUnification": "true",
			"ssl.quorum.keyStore.location": own.PEM("server.pem"), "ssl.quorum.trustStore.location": own.By.Trust(),
		})
	})
}

// snapshotsOfStrangers attacks an ensemble with these keys.
func snapshotsOfStrangers(t *testing.T, config map[string]string) {
	t.Helper()
	e := ensemble.Start(t, ensemble.Options{Kind: target.Zkd, Config: config})
	write(t, e.Servers[0].Addr, "/before")
	told := map[string]bool{}
	for _, s := range e.Servers {
		host, ports, _ := strings.Cut(s.Address, ":")
		port, _, _ := strings.Cut(ports, ":")
		addr := net.JoinHostPort(host, port)
		for _, from := range []int{1, 2, 3, stranger} {
			if from == s.ID {
				continue
			}
			hello := peerHello(from, s.ID, 2)
			if code, _ := say(t, addr, append(hello, forgedSnapshot(t, from, s.ID)...)); code == 0 {
				t.Errorf("server %d takes a stream in the name of server %d", s.ID, from)
			}
			code, rest := say(t, addr, peerHello(from, s.ID, 3))
			if len(rest) < 32 || code == 0 {
				t.Fatalf("server %d answers a question of server %d with code %d, %x", s.ID, from, code, rest)
			}
			told[string(rest[:16])] = true
			if process := binary.BigEndian.Uint64(rest[24:]); process != 0 {
				t.Errorf("server %d tells server %d what marks its process", s.ID, from)
			}
		}
		if _, err := os.Stat(filepath.Join(s.DataDir(), "state.staged")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("server %d keeps what a stranger has sent: %v", s.ID, err)
		}
	}
	if len(told) != 1 {
		t.Errorf("%d clusters are told of", len(told))
	}
	for _, s := range e.Servers {
		if !s.Running() {
			t.Fatalf("server %d has ended", s.ID)
		}
		write(t, s.Addr, fmt.Sprintf("/after%d", s.ID))
	}
	for _, s := range e.Servers {
		s.Stop()
	}
	e.StartAll()
	write(t, e.Servers[1].Addr, "/again")
}

// write makes a znode.
func write(t *testing.T, addr, path string) {
	t.Helper()
	c, err := client.Dial(context.Background(), client.Options{Addr: addr, Timeout: 30 * time.Second, Now: time.Now,
		Dial: new(net.Dialer).DialContext})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := jute.CreateRequest{Path: path, ACL: []jute.ACL{
		{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}},
	}}
	if header, _, err := c.Do(jute.OpCreate, r.Append); err != nil || header.Err != jute.OK {
		t.Fatalf("create of %s at %s: %v, %v", path, addr, header.Err, err)
	}
}
