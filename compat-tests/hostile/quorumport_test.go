package hostile_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// Kinds of packets at ZooKeeper's quorum port (org.apache.zookeeper.server.quorum.Leader).
const (
	packetRequest      = 1
	packetAck          = 3
	packetFollowerInfo = 11
	packetUpToDate     = 12
	packetNewLeader    = 10
	packetSnap         = 15
	packetAckEpoch     = 18
)

// learner is a stranger that follows a leader of ZooKeeper.
type learner struct {
	t    *testing.T
	conn net.Conn
	said bytes.Buffer // all that the leader has said
}

// text adds a string, or bytes, with its length.
func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// send sends a QuorumPacket; identities are pairs of scheme and id.
func (l *learner) send(kind uint32, zxid uint64, data []byte, identities ...string) {
	l.t.Helper()
	b := binary.BigEndian.AppendUint32(nil, kind)
	b = text(binary.BigEndian.AppendUint64(b, zxid), string(data))
	b = binary.BigEndian.AppendUint32(b, uint32(len(identities)/2))
	for _, s := range identities {
		b = text(b, s)
	}
	if _, err := l.conn.Write(b); err != nil {
		l.t.Fatal(err)
	}
}

// number reads an integer of n bytes.
func (l *learner) number(r io.Reader, n int) uint64 {
	l.t.Helper()
	b := make([]byte, 8)
	if _, err := io.ReadFull(r, b[8-n:]); err != nil {
		l.t.Fatalf("the leader hangs up: %v", err)
	}
	return binary.BigEndian.Uint64(b)
}

// next reads a QuorumPacket without identities.
func (l *learner) next(r io.Reader) (kind uint32, zxid uint64) {
	l.t.Helper()
	kind, zxid = uint32(l.number(r, 4)), l.number(r, 8)
	if n := int32(l.number(r, 4)); n > 0 {
		if _, err := io.CopyN(io.Discard, r, int64(n)); err != nil {
			l.t.Fatal(err)
		}
	}
	if n := int32(l.number(r, 4)); n > 0 {
		l.t.Fatalf("a packet %d with %d identities", kind, n)
	}
	return kind, zxid
}

// follow has a stranger with that id follow the leader until that says that it is up to date. It says by which packet
// the state came.
func follow(t *testing.T, addr string, id uint64) (l *learner, by uint32) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(answersWithin)); err != nil {
		t.Fatal(err)
	}
	l = &learner{t: t, conn: conn}
	r := io.TeeReader(conn, &l.said)
	info := binary.BigEndian.AppendUint64(nil, id)
	info = binary.BigEndian.AppendUint32(info, 0x10000) // protocol version
	l.send(packetFollowerInfo, 0, binary.BigEndian.AppendUint64(info, 0))
	_, zxid := l.next(r) // LEADERINFO
	l.send(packetAckEpoch, 0, binary.BigEndian.AppendUint32(nil, 0))
	by, _ = l.next(r)
	if by == packetSnap {
		for !bytes.HasSuffix(l.said.Bytes(), []byte("BenWasHere")) {
			l.number(r, 1)
		}
	}
	for kind := uint32(0); kind != packetUpToDate; {
		kind, _ = l.next(r)
		if kind == packetNewLeader {
			l.send(packetAck, zxid, nil)
		}
	}
	return l, by
}

// votes sends forged votes to an election port in the name of a server until done: for itself, with the highest zxid.
func votes(addr string, id uint64, done <-chan struct{}) (sent int, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	hello := binary.BigEndian.AppendUint64(nil, math.MaxUint64-0xffff) // QuorumCnxManager.PROTOCOL_VERSION_V1
	if _, err := conn.Write(text(binary.BigEndian.AppendUint64(hello, id), "127.0.0.1:1")); err != nil {
		return 0, err
	}
	vote := binary.BigEndian.AppendUint32(nil, 0) // LOOKING
	vote = binary.BigEndian.AppendUint64(vote, id)
	vote = binary.BigEndian.AppendUint64(vote, math.MaxInt64)
	vote = binary.BigEndian.AppendUint64(vote, 1<<40) // of the round of elections
	vote = binary.BigEndian.AppendUint64(vote, 1<<30) // epoch
	vote = text(binary.BigEndian.AppendUint32(vote, 2), "")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return sent, nil
		case <-tick.C:
		}
		if _, err := conn.Write(text(nil, string(vote))); err != nil {
			return sent, err
		}
		sent++
	}
}

// TestStrangersAtZooKeepersPorts does to three servers of Apache ZooKeeper what docs/security.md says of them: a
// stranger that knows nothing follows the leader and has all data, writes as a superuser, and keeps servers from
// electing a leader. On zkd its counterparts are TestSnapshotsOfStrangers and server/instance.TestHostileStreams.
func TestStrangersAtZooKeepersPorts(t *testing.T) {
	if target.Selected(t) != target.Zookeeper {
		t.Skip("the ports are those of ZooKeeper: ZKD_COMPAT_TARGET=zookeeper")
	}
	e := ensemble.Start(t, ensemble.Options{Kind: target.Zookeeper})
	const secret, forged = "for bob alone", "by a stranger"
	owner := dial(t, e.Servers[0].Addr)
	if code, err := owner.Auth("digest", "bob:bob"); err != nil || code != jute.OK {
		t.Fatal(code, err)
	}
	r := jute.CreateRequest{Path: "/bobs", Data: []byte(secret),
		ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}}
	if header, _, err := owner.Do(jute.OpCreate, r.Append); err != nil || header.Err != jute.OK {
		t.Fatalf("create: %v, %v", header.Err, err)
	}
	began := time.Now()
	l, by := follow(t, quorumPort(e.AwaitLeader(), 0), stranger)
	if !bytes.Contains(l.said.Bytes(), []byte(secret)) {
		t.Errorf("a stranger that follows is not sent what only bob may read: %d bytes", l.said.Len())
	}
	t.Logf("a stranger has the state, %d bytes, by a packet %d, after %v", l.said.Len(), by, time.Since(began))

	session := binary.BigEndian.AppendUint64(nil, 0x9000000000000001)
	request := func(cxid uint32, op jute.Op, body []byte) []byte {
		b := binary.BigEndian.AppendUint32(bytes.Clone(session), cxid)
		return append(binary.BigEndian.AppendUint32(b, uint32(op)), body...)
	}
	l.send(packetRequest, 0, request(0, jute.OpCreateSession, []byte{0, 0, 0x75, 0x30}))
	set := jute.SetDataRequest{Path: "/bobs", Data: []byte(forged), Version: -1}
	l.send(packetRequest, 0, request(1, jute.OpSetData, set.Append(nil)), "super", "")
	if why := ensemble.Await(answersWithin, func() (bool, string) {
		get := jute.PathWatchRequest{Path: "/bobs"}
		header, body, err := owner.Do(jute.OpGetData, get.Append)
		return err == nil && header.Err == jute.OK && bytes.Contains(body, []byte(forged)),
			fmt.Sprintf("%v, %v, %q", header.Err, err, body)
	}); why != "" {
		t.Errorf("the stranger has not written what only bob may: %s", why)
	}
	t.Logf("a stranger has written as a superuser, %v after its first byte", time.Since(began))
	_ = l.conn.Close()
	forgedVotes(t, e)
}

// forgedVotes stops the server with the highest id, and has a stranger send votes in its name: the two others elect
// nobody, while they would within seconds.
func forgedVotes(t *testing.T, e *ensemble.Ensemble) {
	t.Helper()
	done := make(chan struct{})
	e.Servers[2].Stop()
	rest := e.Servers[:2]
	e.AwaitServing(rest...)
	// Both begin an election: the one that leads is stopped and started again.
	var all sync.WaitGroup
	leader := e.AwaitLeader()
	leader.Stop()
	for _, s := range rest {
		addr := quorumPort(s, 1)
		all.Go(func() {
			for {
				n, err := votes(addr, 3, done)
				if err == nil {
					t.Logf("%d forged votes at %s", n, addr)
					return
				}
				select {
				case <-done:
					return
				case <-time.After(50 * time.Millisecond): // the server is not up yet
				}
			}
		})
	}
	leader.Launch()
	began := time.Now()
	why := ensemble.Await(answersWithin, func() (bool, string) { return e.Leader() != nil, "no server leads" })
	t.Logf("under forged votes: %q after %v", why, time.Since(began))
	close(done)
	all.Wait()
	if why == "" {
		t.Error("a leader is elected under forged votes")
	}
	began = time.Now()
	e.AwaitServing(rest...)
	t.Logf("without them: a leader after %v", time.Since(began))
}

// quorumPort is the address of a server's quorum port, or of its election port.
func quorumPort(s *ensemble.Server, election int) string {
	parts := strings.Split(s.Address, ":")
	return net.JoinHostPort(parts[0], parts[1+election])
}

// dial returns a session.
func dial(t *testing.T, addr string) *client.Conn {
	t.Helper()
	c, err := client.Dial(context.Background(), client.Options{Addr: addr, Timeout: 30 * time.Second, Now: time.Now,
		Dial: new(net.Dialer).DialContext})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
