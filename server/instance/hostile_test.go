package instance

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zkd/compat-tests/hostile"
)

// Settings of the attack on the ports for servers. The strangers are fewer than may shake hands at once.
const (
	strangers      = 4
	streamsUsually = 400
	strangerID     = 9 // that nobody has
)

// TestHostileStreams has strangers send forged and damaged proofs, hellos, snapshot streams and frames to each member
// of an ensemble, in the name of each one and of nobody: all members serve afterwards, and start again. Without a
// secret all members are there; with one, one of them is away, and who claims to be it has to prove it.
// ZKD_HOSTILE_STREAMS is how many connections they make, ZKD_HOSTILE_SEED repeats a run.
func TestHostileStreams(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("what all of them know"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string][]string{ // order: alike
		"without a secret": nil, "with a secret": {"zkd.quorum.secretFile=" + secret},
	} {
		t.Run(name, func(t *testing.T) {
			servers := startMembers(t, keys...)
			create(t, connect(t, servers[0].addr), "/before", "", 0)
			attacked := servers[:]
			if keys != nil {
				servers[2].stop()
				attacked = servers[:2]
				create(t, connect(t, servers[0].addr, servers[1].addr), "/less", "", 0)
			}
			terms := servers[0].node.Status().Term
			attackPeers(t, attacked, keys != nil)
			if term := servers[0].node.Status().Term; term > terms+2 {
				t.Errorf("term %d has become %d: strangers bring elections about", terms, term)
			}
			for n, s := range attacked {
				create(t, connect(t, s.addr), fmt.Sprintf("/after%d", n), "", 0)
				if _, err := os.Stat(s.dir.StagingDir()); err == nil {
					t.Errorf("server %d keeps what strangers have sent", n+1)
				}
			}
			for _, s := range servers {
				s.stop()
			}
			for _, s := range servers {
				s.Instance, s.stop = start(t, s.cfg, realWorld())
			}
			for n, s := range servers {
				create(t, connect(t, s.addr), fmt.Sprintf("/again%d", n), "", 0)
			}
		})
	}
}

// attackPeers has strangers come to servers, whose ids are those from 1. With a secret none of them is let in.
func attackPeers(t *testing.T, servers []*member, secret bool) {
	t.Helper()
	seed := hostile.Seed(t)
	t.Logf("ZKD_HOSTILE_SEED=%d", seed)
	left := atomic.Int64{}
	left.Store(hostile.Streams(t, streamsUsually))
	sent := left.Load()
	var all sync.WaitGroup
	for n := range uint64(strangers) {
		all.Go(func() {
			streams, err := hostile.NewPeerStreams(seed + n)
			if err != nil {
				t.Error(err)
				return
			}
			random := rand.New(rand.NewPCG(seed+n, 11))
			for left.Add(-1) >= 0 && !t.Failed() {
				to := 1 + random.IntN(len(servers))
				from := []uint64{1, 2, 3, strangerID}[random.IntN(4)]
				b, err := streams.Connection(from, uint64(to))
				var said []byte
				if err == nil {
					said, err = sayTo(servers[to-1].peerAddr, b)
				}
				const codeAt = 12 // of an answer; 0 is that it was accepted
				if secret && len(said) > codeAt && string(said[1:8]) == "zkdpeer" && said[codeAt] == 0 {
					t.Errorf("server %d, seed %d: a stranger is let in as server %d", to, seed, from)
				}
				if err != nil {
					t.Errorf("server %d, seed %d: %v", to, seed, err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d connections of strangers", sent)
}

// sayTo sends bytes on a connection of their own, waits until the other side has ended it, and returns what that has
// said.
func sayTo(addr string, b []byte) (said []byte, err error) {
	conn, err := net.DialTimeout("tcp", addr, deadline)
	if err != nil {
		return nil, fmt.Errorf("the port takes no connections: %w", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(deadline)) // an error shows with the read
	_, _ = conn.Write(b)                           // it may be closed before all is sent
	if half, ok := conn.(*net.TCPConn); ok {
		_ = half.CloseWrite() // it may be closed
	}
	if said, err = io.ReadAll(conn); os.IsTimeout(err) {
		return nil, fmt.Errorf("the server keeps a connection that sends no more: %w", err)
	}
	return said, nil
}
