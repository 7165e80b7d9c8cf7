package hostile_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/compat-tests/ensemble"
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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// peerHello is what a server says first, to another one and in the name of a third.
func peerHello(from, to int, purpose byte) []byte {
	b := append([]byte{0xF5}, "zkdpeer"...)
	b = append(b, 0, 1, 0, 3, 0, 0)
	head := len(b)
	b = append(b, make([]byte, 16)...) // the cluster: not known
	b = binary.BigEndian.AppendUint64(b, uint64(from))
	b = binary.BigEndian.AppendUint64(b, uint64(to))
	b = binary.BigEndian.AppendUint64(b, 0xBAD)
	b = append(b, purpose, 0, 0, 0) // no name, no founders
	b = append(b, 0, 99, 0, 99, 0, 1)
	binary.BigEndian.PutUint16(b[head-2:], uint16(len(b)-head+4))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// snapshotMessage is one of a snapshot stream.
func snapshotMessage(kind byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)))
	b = binary.BigEndian.AppendUint32(b, crc32.Update(crc32.Checksum([]byte{kind}, castagnoli), castagnoli, body))
	return append(b, body...)
}

// forgedSnapshot is a stream of a state that is one file of zeros, far ahead of everybody.
func forgedSnapshot(t *testing.T, from, to int) []byte {
	t.Helper()
	sender, receiver, term, index := uint64(from), uint64(to), uint64(1000), uint64(1<<40)
	header, err := proto.Marshal(&raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), From: &sender, To: &receiver, Term: &term,
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
			Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, zerosBytes)
	const name = "000001.sst"
	m := binary.BigEndian.AppendUint32([]byte{0, 1}, uint32(len(header)))
	m = binary.BigEndian.AppendUint32(append(m, header...), 1)
	m = append(append(m, byte(len(name))), name...)
	m = binary.BigEndian.AppendUint64(m, zerosBytes)
	m = binary.BigEndian.AppendUint64(m, xxhash.Sum64(zeros))
	stream := snapshotMessage(1, m)
	for offset := 0; offset < zerosBytes; offset += 1 << 18 {
		piece := binary.BigEndian.AppendUint64(make([]byte, 4), uint64(offset))
		stream = append(stream, snapshotMessage(3, append(piece, zeros[:1<<18]...))...)
	}
	return stream
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
// again.
func TestSnapshotsOfStrangers(t *testing.T) {
	if target.Selected(t) != target.Zkd {
		t.Skip("the streams are those of zkd")
	}
	e := ensemble.Start(t, ensemble.Options{Kind: target.Zkd})
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
