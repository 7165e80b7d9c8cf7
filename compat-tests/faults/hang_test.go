package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
	"zkd/jute"
)

// writer writes to a znode of its own through one server, for as long as the test lasts.
type writer struct {
	server *ensemble.Server
	path   string
	acks   atomic.Int64 // writes acknowledged; also what the znode holds at least
	last   atomic.Int64 // when the last of them was, in nanoseconds of the test's clock
	gap    atomic.Int64 // the longest time between two of them since reset
}

// write writes until stop. What was lost on the way is written again, in another session if need be: that of a server
// whose disk hangs may end meanwhile.
func (w *writer) write(o SessionOptions) error {
	s, _ := Open(o) // without a connection, the first write says so
	defer func() { s.Drop() }()
	for {
		select {
		case <-o.Stop:
			return nil
		default:
		}
		reply, _, err := s.SetData(w.path, strconv.FormatInt(w.acks.Load()+1, 10), jute.AnyVersion)
		switch {
		case err == nil && reply.Err == jute.OK:
			now := o.Now()
			gap := now - w.last.Swap(now)
			if gap > w.gap.Load() {
				w.gap.Store(gap)
			}
			w.acks.Add(1)
		case err == nil && reply.Err != jute.SessionExpired:
			return fmt.Errorf("a write is answered %v", reply.Err)
		default:
			if err := s.Connect(); errors.Is(err, ErrExpired) {
				s, _ = Open(o)
			}
		}
	}
}

// hangRun is an ensemble whose disks can hang, with a writer on each server.
type hangRun struct {
	t       *testing.T
	e       *ensemble.Ensemble
	now     func() int64
	stop    chan struct{}
	writers []*writer
}

// startHanging starts it, and returns once all write.
func startHanging(t *testing.T) *hangRun {
	t.Helper()
	target.Require(t)
	if err := ensemble.Hangable(t); err != nil {
		target.LeaveOut(t, fmt.Sprintf("no file system can be made to hang here: %v", err))
	}
	r := &hangRun{t: t, stop: make(chan struct{})}
	r.e = ensemble.Start(t, ensemble.Options{CanHang: true, Dynamic: true, Config: map[string]string{
		"tickTime": fmt.Sprint(tick.Milliseconds()), "initLimit": "20", "syncLimit": "10",
		"zkd.electionTimeout": "3000", // who leads is to change by the disk alone, not by what else the machine does
	}})
	began := time.Now()
	r.now = func() int64 { return int64(time.Since(began)) + 1 }
	r.plant()
	var wg sync.WaitGroup
	t.Cleanup(func() { // before the servers end
		for _, s := range r.e.Servers {
			s.ThawDisk()
		}
		close(r.stop)
		wg.Wait()
	})
	for _, s := range r.e.Servers {
		w := &writer{server: s, path: hangPath(s)}
		r.writers = append(r.writers, w)
		wg.Go(func() {
			if err := w.write(r.options(s.ID, []string{s.Addr})); err != nil && !r.over() {
				t.Errorf("the client of server %d: %v", s.ID, err)
			}
		})
	}
	r.progress("all servers are well", r.writers)
	return r
}

// hangPath is what the client of a server writes to.
func hangPath(s *ensemble.Server) string { return fmt.Sprintf("/hang%d", s.ID) }

// plant makes the znodes that are written to.
func (r *hangRun) plant() {
	r.t.Helper()
	admin, err := Open(r.options(0, r.e.Addrs()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer admin.Close() //nolint:errcheck // it expires by itself else
	for _, s := range r.e.Servers {
		if err := admin.Plant(hangPath(s), "0"); err != nil {
			r.t.Fatal(err)
		}
	}
}

// over tells whether the run has ended.
func (r *hangRun) over() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

func (r *hangRun) options(i int, addrs []string) SessionOptions {
	return SessionOptions{
		Addrs: addrs, Timeout: timeoutStays, Rand: rand.New(rand.NewPCG(1, uint64(i))), Now: r.now,
		Violated: func(format string, args ...any) { r.t.Errorf(format, args...) }, Stop: r.stop,
	}
}

// progressWrites is how many writes of each client are progress: enough that none of them was under way before.
const progressWrites = 20

// progress returns once each of the clients has written so much more.
func (r *hangRun) progress(when string, writers []*writer) {
	r.t.Helper()
	before := make([]int64, len(writers))
	for i, w := range writers {
		before[i] = w.acks.Load()
	}
	if why := ensemble.Await(healedWithin, func() (bool, string) {
		for i, w := range writers {
			if n := w.acks.Load() - before[i]; n < progressWrites {
				return false, fmt.Sprintf("the client of server %d has written %d times", w.server.ID, n)
			}
		}
		return true, ""
	}); why != "" {
		r.t.Fatalf("%v after %s: %s", healedWithin, when, why)
	}
}

// others are the clients of all servers but one.
func (r *hangRun) others(s *ensemble.Server) []*writer {
	var others []*writer
	for _, w := range r.writers {
		if w.server != s {
			others = append(others, w)
		}
	}
	return others
}

// longest is the longest time without a write that a client of them has seen since its last call.
func longest(writers []*writer) time.Duration {
	gap := int64(0)
	for _, w := range writers {
		gap = max(gap, w.gap.Swap(0))
	}
	return time.Duration(gap)
}

// mntr is a value of the four-letter word mntr.
func mntr(s *ensemble.Server, key string) string {
	text, err := s.FourLetterWord("mntr")
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(text) {
		if k, value, _ := strings.Cut(strings.TrimSpace(line), "\t"); k == key {
			return value
		}
	}
	return ""
}

// healed sees to it that the server serves its clients again, and that all servers hold what was acknowledged.
func (r *hangRun) healed(s *ensemble.Server) {
	r.t.Helper()
	s.ThawDisk()
	r.progress(fmt.Sprintf("the disk of server %d answers again", s.ID), r.writers)
	r.e.AwaitServing(r.e.Servers...)
	for _, w := range r.writers {
		acked := w.acks.Load()
		for _, server := range r.e.Servers {
			r.holds(server, w.path, acked)
		}
	}
}

// holds sees to it that a server has a write, after a sync.
func (r *hangRun) holds(server *ensemble.Server, path string, acked int64) {
	r.t.Helper()
	session, err := Open(r.options(100, []string{server.Addr}))
	if err != nil {
		r.t.Fatal(err)
	}
	defer session.Close() //nolint:errcheck // it expires by itself else
	data := ""
	reply, err := session.Insist(func() (Reply, error) {
		reply, err := session.Sync(path)
		if err == nil && reply.Err == jute.OK {
			reply, data, _, err = session.GetData(path, false)
		}
		return reply, err
	})
	if n, _ := strconv.ParseInt(data, 10, 64); err != nil || n < acked {
		r.t.Errorf("server %d holds %s=%s, %v, %v; %d were acknowledged", server.ID, path, data, reply.Err, err, acked)
	}
}

// TestLeaderDiskHangs stops the file system of the leader: the clients of the others go on, another server leads (but
// with ZooKeeper, whose leader goes on), and the old leader follows when its disk answers again.
func TestLeaderDiskHangs(t *testing.T) {
	r := startHanging(t)
	old := r.e.AwaitLeader()
	longest(r.writers)
	old.HangDisk()
	others, own := r.others(old), r.writers[old.ID-1]
	before := own.acks.Load()
	r.progress("the leader's disk hangs", others)
	t.Logf("the leader's disk hangs: the clients of the others wait %v at most", longest(others))
	t.Logf("the client of the server whose disk hangs has written %d times meanwhile", own.acks.Load()-before)
	if old.Kind == target.Zkd {
		r.handedOver(old)
		r.shown(old)
	}
	r.healed(old)
	if old.Kind == target.Zkd {
		r.logged(old, "disk stall ended")
	}
	t.Logf("it heals: the clients of the others wait %v at most", longest(others))
}

// TestFollowerDiskHangs stops the file system of a follower: the clients of the others notice nothing, and it can be
// seen whose disk hangs.
func TestFollowerDiskHangs(t *testing.T) {
	r := startHanging(t)
	leader, hung := r.e.AwaitLeader(), r.e.Followers()[0]
	others, own := r.others(hung), r.writers[hung.ID-1]
	longest(r.writers)
	hung.HangDisk()
	before := own.acks.Load()
	r.progress("a follower's disk hangs", others)
	t.Logf("the client of the server whose disk hangs has written %d times meanwhile", own.acks.Load()-before)
	if hung.Kind == target.Zkd {
		r.shown(hung)
		r.progress("it is seen that a follower's disk hangs", others)
		if now := r.e.AwaitLeader(); now != leader {
			t.Errorf("server %d led, now server %d does", leader.ID, now.ID)
		}
	}
	t.Logf("a follower's disk hangs: the clients of the others wait %v at most", longest(others))
	r.healed(hung)
}

// shown returns once the servers show that the disk of one of them hangs, while it does.
func (r *hangRun) shown(hung *ensemble.Server) {
	r.t.Helper()
	key := fmt.Sprintf("zk_%d_zkd_peer_disk_hangs", hung.ID)
	if why := ensemble.Await(healedWithin, func() (bool, string) {
		leader := r.e.Leader()
		return leader != nil && mntr(leader, key) == "1", "the leader does not show whose disk hangs"
	}); why != "" {
		r.t.Error(why)
	}
	r.logged(hung, "disk stalled: check volume, controller, file system")
	id, out := strconv.Itoa(hung.ID), ""
	if why := ensemble.Await(healedWithin, func() (bool, string) { // another one may lead by now
		out = r.status()
		shown := strings.Contains(out, "the disk of server "+id) || strings.Contains(out, "the leader hears server "+id)
		return shown, out
	}); why != "" {
		r.t.Errorf("zkd status does not show it:\n%s", why)
	}
	r.t.Logf("zkd status:\n%s", out)
	if why := ensemble.Await(healedWithin, func() (bool, string) {
		mode := hung.Mode()
		return mode == "", "the server whose disk hangs still serves clients as " + mode
	}); why != "" {
		r.t.Error(why)
	}
	r.logged(hung, "not serving writes: disk stalled")
}

// status is what zkd status shows.
func (r *hangRun) status() string {
	argv, _ := target.Command(r.t, target.Zkd, "", nil)
	out, err := target.Client{
		Argv: []string{argv[0], "status", "--server", r.e.AwaitLeader().Addr}, Within: healedWithin,
	}.Run(r.t)
	return fmt.Sprintf("%s%v", out, err)
}

// logged returns once a server has logged a text.
func (r *hangRun) logged(s *ensemble.Server, text string) {
	r.t.Helper()
	if why := ensemble.Await(healedWithin, func() (bool, string) {
		log, err := os.ReadFile(s.LogPath())
		return err == nil && strings.Contains(string(log), text), fmt.Sprintf("server %d does not log %q", s.ID, text)
	}); why != "" {
		r.t.Error(why)
	}
}

// handedOver returns once another server leads, and the old leader shows that its disk hangs.
func (r *hangRun) handedOver(old *ensemble.Server) {
	r.t.Helper()
	if why := ensemble.Await(healedWithin, func() (bool, string) {
		leader := r.e.Leader()
		return leader != nil && leader != old, "the server whose disk hangs still leads"
	}); why != "" {
		r.t.Fatal(why)
	}
	r.progress("another server leads", r.others(old))
	r.t.Logf("until another server leads: the clients of the others wait %v at most", longest(r.others(old)))
}
