package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/jute"
)

// lockers are sessions of go-zookeeper that take turns by its lock, and in each turn replace a text by one of their
// own.
type lockers struct {
	part
	mu    sync.Mutex
	holds []Hold // guarded by mu
}

// Hold is one turn: under the lock a client has read the text, and replaced it in one transaction with a check that its
// znode of the lock is still there.
type Hold struct {
	Client       int
	Token        jute.Zxid // czxid of the lock's znode
	Before, Text string
	Zxid         jute.Zxid // of the replacement; 0: not known
	Outcome      Outcome
}

// textAtFirst is the text before the first turn.
const textAtFirst = "first"

func (l *lockers) queue() string { return l.root + "/queue" }
func (l *lockers) text() string  { return l.root + "/text" }

// Plant implements Role.
func (l *lockers) Plant(s *Session) error {
	if err := s.Plant(l.root, ""); err != nil {
		return err
	}
	if err := s.Plant(l.queue(), ""); err != nil {
		return err
	}
	return s.Plant(l.text(), textAtFirst)
}

// Run implements Role.
func (l *lockers) Run(id int, pace time.Duration, o SessionOptions) {
	pause := time.NewTicker(3 * pace)
	defer pause.Stop()
	for n := 0; ; {
		select {
		case <-o.Stop:
			return
		case <-pause.C:
		}
		conn := l.connect(o)
		if conn == nil {
			return
		}
		over := make(chan struct{})
		go func() { // ends the call that waits for the lock
			select {
			case <-o.Stop:
				conn.Close()
			case <-over:
			}
		}()
		for l.turn(conn, id, &n, pause.C, &o) { // until something goes wrong: what it leaves goes with the session
		}
		close(over)
		conn.Close()
	}
}

// connect begins a session.
func (l *lockers) connect(o SessionOptions) *zk.Conn {
	dial := o.dialer()
	conn, _, err := zk.Connect(o.Addrs, o.Timeout, zk.WithLogger(silent{}), zk.WithLogInfo(false),
		zk.WithDialer(func(network, addr string, _ time.Duration) (net.Conn, error) {
			return dial(context.Background(), network, addr)
		}))
	if err != nil {
		l.violated("connect: %v", err)
		return nil
	}
	return conn
}

// turn takes the lock, replaces the text, and gives the lock back. It reports whether all went well.
func (l *lockers) turn(conn *zk.Conn, id int, n *int, pause <-chan time.Time, o *SessionOptions) bool {
	for rests := true; rests; rests = o.rests() {
		select {
		case <-o.Stop:
			return false
		case <-pause:
		}
	}
	lock := zk.NewLock(conn, l.queue(), zk.WorldACL(zk.PermAll))
	if lock.Lock() != nil {
		l.did(Unknown)
		return false
	}
	l.did(Done)
	path, token := l.own(conn)
	data, _, err := conn.Get(l.text())
	if path == "" || err != nil {
		return false
	}
	*n++
	h := Hold{Client: id, Token: token, Before: string(data), Text: fmt.Sprintf("t%d.%d", id, *n)}
	l.replace(conn, path, &h)
	l.did(h.Outcome)
	l.mu.Lock()
	l.holds = append(l.holds, h)
	l.mu.Unlock()
	return h.Outcome != Unknown && lock.Unlock() == nil
}

// own returns the first znode of the lock, if it is the session's.
func (l *lockers) own(conn *zk.Conn) (path string, token jute.Zxid) {
	names, _, err := conn.Children(l.queue())
	if err != nil || len(names) == 0 {
		return "", 0
	}
	path = l.queue() + "/" + slices.MinFunc(names, func(a, b string) int {
		return cmp.Compare(a[strings.LastIndex(a, "-"):], b[strings.LastIndex(b, "-"):])
	})
	there, stat, err := conn.Exists(path)
	if err != nil || !there || stat.EphemeralOwner != conn.SessionID() {
		return "", 0
	}
	return path, jute.Zxid(stat.Czxid)
}

// replace replaces the text.
func (l *lockers) replace(conn *zk.Conn, path string, h *Hold) {
	parts, err := conn.Multi(&zk.CheckVersionRequest{Path: path, Version: -1},
		&zk.SetDataRequest{Path: l.text(), Data: []byte(h.Text), Version: -1})
	for _, p := range parts {
		err = cmp.Or(err, p.Error)
	}
	switch {
	case err == nil && len(parts) == 2 && parts[1].Stat != nil:
		h.Outcome, h.Zxid = Done, jute.Zxid(parts[1].Stat.Mzxid)
	case errors.Is(err, zk.ErrNoNode):
		h.Outcome = Refused
	}
}

// Unsettled implements Role: the locks go with their sessions.
func (l *lockers) Unsettled(s *Session) (string, error) {
	_, names, _, err := s.Children(l.queue(), false)
	if len(names) > 0 {
		return fmt.Sprintf("locks of sessions that are over: %v", names), err
	}
	return "", err
}

// Check implements Role.
func (l *lockers) Check(trees []Tree) {
	for _, tree := range trees {
		CheckHolds(append(slices.Clone(l.holds), Hold{Client: -1, Before: tree[l.text()].Data, Outcome: Done,
			Token: never, Zxid: never}), l.violated)
	}
}

// CheckHolds holds turns against what a lock is: in the order of the replacements the tokens do not decrease, no token
// is two clients', and each client found the text that the one before it had left.
func CheckHolds(holds []Hold, violated func(string, ...any)) {
	var done []Hold
	doubtful, owner := map[string]Hold{}, map[jute.Zxid]int{}
	for _, h := range holds {
		if other, ok := owner[h.Token]; ok && other != h.Client {
			violated("clients %d and %d have one token: %+v", other, h.Client, h)
		}
		owner[h.Token] = h.Client
		switch h.Outcome {
		case Done:
			done = append(done, h)
		case Unknown:
			doubtful[h.Text] = h
		}
	}
	slices.SortFunc(done, func(a, b Hold) int { return cmp.Compare(a.Zxid, b.Zxid) })
	last := Hold{Text: textAtFirst}
	for _, h := range done {
		found := h.Before
		for found != last.Text {
			d, ok := doubtful[found]
			if !ok || d.Token < last.Token || d.Token > h.Token {
				violated("a client found %q, and the one before it has left %+v: %+v", found, last, h)
				break
			}
			delete(doubtful, found)
			found = d.Before
		}
		if h.Token < last.Token {
			violated("an earlier lock was used later: %+v, then %+v", last, h)
		}
		last = h
	}
}
