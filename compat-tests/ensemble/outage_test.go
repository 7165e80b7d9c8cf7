package ensemble_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// outageTimeout is that of the sessions that are to outlive an outage.
const outageTimeout = 6 * time.Second

// survivor is a session of the Go library with one server, which owns an ephemeral.
type survivor struct {
	t    *testing.T
	conn *zk.Conn
	id   int64
	path string // of the ephemeral
}

// survive opens one.
func survive(t *testing.T, server *ensemble.Server) *survivor {
	t.Helper()
	conn, _, err := zk.Connect([]string{server.Addr}, outageTimeout, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	s := &survivor{t: t, conn: conn, path: fmt.Sprint("/ephemeral-", server.ID)}
	await(t, func() (bool, string) {
		_, err := conn.Create(s.path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		done := err == nil || errors.Is(err, zk.ErrNodeExists) // by a request that was not answered
		return done, fmt.Sprintf("create %s: %v", s.path, err)
	})
	s.id = conn.SessionID()
	return s
}

// isBack waits until it is connected again, and checks that it is the session that it was.
func (s *survivor) isBack() {
	s.t.Helper()
	await(s.t, func() (bool, string) {
		there, stat, err := s.conn.Exists(s.path)
		switch {
		case err != nil:
			return false, fmt.Sprintf("exists %s: %v", s.path, err)
		case !there:
			s.t.Errorf("%s is gone", s.path)
		case stat.EphemeralOwner != s.id:
			s.t.Errorf("%s belongs to %#x, not to %#x", s.path, stat.EphemeralOwner, s.id)
		}
		return true, ""
	})
	if id := s.conn.SessionID(); id != s.id {
		s.t.Errorf("the session is %#x, and was %#x", id, s.id)
	}
}

// outlast returns when a session that nobody hears would have ended.
func outlast() { <-time.After(outageTimeout + outageTimeout/2) }

// TestSessionsOutliveAnOutage: while a majority is gone no session ends, however long that takes, whether its client is
// one of the server that is left or of another one.
func TestSessionsOutliveAnOutage(t *testing.T) {
	for _, role := range []string{"leader", "follower"} {
		t.Run(role, func(t *testing.T) {
			e := ensemble.Start(t, ensemble.Options{Config: quick})
			left := e.AwaitLeader()
			if role == "follower" {
				left = e.Followers()[0]
			}
			var sessions []*survivor
			for _, s := range e.Servers {
				sessions = append(sessions, survive(t, s))
			}
			for _, s := range e.Servers {
				if s != left {
					s.Kill9()
				}
			}
			outlast()
			e.StartAll()
			for _, s := range sessions {
				s.isBack()
			}
		})
	}
}

// TestSessionsOutliveALeaderThatCannotCommit: of three servers one was emptied, and is being sent a snapshot for longer
// than sessions last. Another one is gone: the leader is answered by a majority, and cannot commit anything. The client
// is away for as long as that server is.
func TestSessionsOutliveALeaderThatCannotCommit(t *testing.T) {
	if target.Selected(t) != target.Zkd {
		t.Skip("it is about the rate at which zkd sends snapshots")
	}
	const rate, seconds = 4096, 60
	config := maps.Clone(quick)
	config["zkd.snapshotRate"] = fmt.Sprint(rate)
	for _, role := range []string{"leader", "follower"} {
		t.Run(role, func(t *testing.T) {
			e := ensemble.Start(t, ensemble.Options{Config: config})
			leader, followers := e.AwaitLeader(), e.Followers()
			gone, left, emptied := leader, followers[0], followers[1]
			if role == "follower" {
				gone, left = left, gone
			}
			session := survive(t, gone)
			random := rand.NewChaCha8([32]byte{})
			data := make([]byte, rate)
			for i := range seconds {
				_, _ = random.Read(data) // cannot fail
				if _, err := session.conn.Create(fmt.Sprint("/n", i), data, 0, zk.WorldACL(zk.PermAll)); err != nil {
					t.Fatal(err)
				}
			}
			emptied.Kill9()
			emptied.Wipe()
			emptied.Launch()
			logs := func(s *ensemble.Server, line string) {
				t.Helper()
				await(t, func() (bool, string) {
					return strings.Contains(s.Log(), line), fmt.Sprintf("server %d has not logged %q", s.ID, line)
				})
			}
			logs(leader, "snapshot transfer started")
			gone.Kill9()
			outlast()
			logs(left, "leader cannot commit")
			gone.Launch()
			session.isBack()
		})
	}
}
