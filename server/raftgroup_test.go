package server

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/quorum"
	"zkd/quorum/clock"
)

// wire carries frames between raft members in one process, in order, until a member is cut off.
type wire struct {
	mu    sync.Mutex
	nodes map[uint64]*quorum.Node
	disks map[uint64]vfs.FS
	links map[[2]uint64]chan func()
	cut   map[uint64]bool
	all   sync.WaitGroup
}

// side is one member's transport.
type side struct {
	*wire
	from uint64
}

// SendInOrder implements quorum.Transport: a link keeps the order of all frames.
func (s side) SendInOrder(to uint64, kind uint8, encode func([]byte) []byte, kept []byte) bool {
	return s.Send(to, kind, func(b []byte) []byte { return append(encode(b), kept...) })
}

// Send implements quorum.Transport.
func (s side) Send(to uint64, kind uint8, encode func([]byte) []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := s.nodes[to]
	if node == nil || s.cut[s.from] || s.cut[to] {
		return false
	}
	key := [2]uint64{s.from, to}
	if s.links[key] == nil {
		link := make(chan func(), 4096)
		s.links[key] = link
		s.all.Go(func() {
			for f := range link {
				f()
			}
		})
	}
	body := encode(nil)
	select {
	case s.links[key] <- func() { node.Receive(s.from, kind, body) }:
		return true
	default:
		return false
	}
}

// errCutOff means that a member is not there.
var errCutOff = errors.New("cut off")

// SendSnapshot implements quorum.SnapshotSender: a member that is late when the others found the ensemble begins with
// one.
func (s side) SendSnapshot(_ context.Context, to uint64, header []byte, dir string) error {
	s.mu.Lock()
	node, from, onto := s.nodes[to], s.disks[s.from], s.disks[to]
	if s.cut[s.from] || s.cut[to] {
		node = nil
	}
	s.mu.Unlock()
	if node == nil {
		return errCutOff
	}
	if err := onto.RemoveAll(stagedDir); err != nil {
		return err
	}
	if _, err := vfs.Clone(from, onto, dir, stagedDir, vfs.CloneSync); err != nil {
		return err
	}
	return node.Staged(s.from, header, stagedDir)
}

// Directories of a member, beside those of its stores.
const (
	checkpointsDir = "checkpoints"
	stagedDir      = "staged"
)

// set cuts a member off or brings it back, and tells the others.
func (w *wire) set(id uint64, cut bool) {
	w.mu.Lock()
	w.cut[id] = cut
	nodes := map[uint64]*quorum.Node{}
	for i, n := range w.nodes {
		nodes[i] = n
	}
	w.mu.Unlock()
	for i, n := range nodes {
		if i == id {
			continue
		}
		if cut {
			n.Lost(id)
			nodes[id].Lost(i)
		} else {
			n.Connected(id)
			nodes[id].Connected(i)
		}
	}
}

// close ends the links.
func (w *wire) close() {
	w.mu.Lock()
	w.nodes = nil
	for _, l := range w.links {
		close(l)
	}
	w.mu.Unlock()
	w.all.Wait()
}

// graceForever is a grace that ends only by a graceClock.
const graceForever = time.Hour

// graceClock is the real clock, but the grace of a server without a leader ends when the test says so.
type graceClock struct {
	clock.Clock
	grace *clock.Manual
}

// NewTimer implements clock.Clock.
func (c graceClock) NewTimer(d time.Duration) clock.Timer {
	if d == graceForever {
		return c.grace.NewTimer(d)
	}
	return c.Clock.NewTimer(d)
}

// startRaft starts three servers over raft.
func startRaft(t *testing.T, set func(id uint64, o *Options)) ([]*rig, *wire) {
	t.Helper()
	w := &wire{nodes: map[uint64]*quorum.Node{}, disks: map[uint64]vfs.FS{}, links: map[[2]uint64]chan func(){},
		cut: map[uint64]bool{}}
	var rigs []*rig
	for id := uint64(1); id <= 3; id++ {
		r := &rig{t: t, served: make(chan error, 1)}
		fs := vfs.NewMem()
		w.mu.Lock()
		w.disks[id] = fs
		w.mu.Unlock()
		r.openStores(fs)
		r.options = testOptions(t, r.machine)
		r.options.ServerID, r.options.Ensemble = id, &Ensemble{}
		r.options.Status = func() quorum.Status { return r.node.Status() }
		r.options.LeaderGrace = graceForever
		if set != nil {
			set(id, &r.options)
		}
		r.server = New(r.options)
		var err error
		r.node, err = quorum.Start(context.Background(), quorum.Options{
			ID: id, Log: r.log, Machine: r.machine, Clock: clock.Real(), Now: r.options.Clock.Now, Logger: discard,
			Observer: r.server,
			Rand:     mathrand.New(mathrand.NewPCG(mathrand.Uint64(), 1)),
			Members:  []quorum.Member{{ID: 1}, {ID: 2}, {ID: 3}}, Transport: side{w, id},
			SnapshotSender: side{w, id}, CheckpointDir: checkpointsDir, FS: fs,
			OnState: r.server.SetState, OnReport: r.server.Heard, OnForwarded: r.server.Forwarded,
			OnReplaced:    r.server.Replaced,
			OnFatal:       func(err error) { t.Errorf("server %d: %v", id, err) },
			ElectionTicks: 20, // of the default length: a slow machine is no reason for an election
		})
		if err != nil {
			t.Fatalf("start the node: %v", err)
		}
		rigs = append(rigs, r)
		w.mu.Lock()
		w.nodes[id] = r.node
		w.mu.Unlock()
		r.server.Start(r.node)
		l := listen(t)
		r.addr = l.Addr().String()
		go func() { r.served <- r.server.Serve(l) }()
	}
	for id := uint64(1); id <= 3; id++ {
		w.set(id, false)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
		defer cancel()
		for _, r := range rigs {
			if err := r.server.Shutdown(ctx); err != nil {
				t.Errorf("shutdown: %v", err)
			}
			<-r.served
		}
		for _, r := range rigs {
			if err := r.node.Stop(ctx); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
		w.close()
		for _, r := range rigs {
			if err := errors.Join(r.machine.Close(), r.log.Close()); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	return rigs, w
}

// leaderOf waits for one leader that all of these know.
func leaderOf(t *testing.T, rigs ...*rig) (leader *rig, others []*rig) {
	t.Helper()
	eventually(t, "all serve", func() bool {
		leader, others = nil, nil
		for _, r := range rigs {
			s := r.server.available.latest()
			if r.server.available.serving() != stateServing || s.Leader == 0 {
				return false
			}
			if s.Role == quorum.RoleLeader {
				leader = r
			} else {
				others = append(others, r)
			}
		}
		return leader != nil
	})
	return leader, others
}

func TestRaftGroup(t *testing.T) {
	graces := map[uint64]*clock.Manual{}
	rigs, w := startRaft(t, func(id uint64, o *Options) {
		graces[id] = clock.NewManual(time.Unix(1_000_000_000, 0))
		o.Clock, o.ReadOnlyMode = graceClock{clock.Real(), graces[id]}, true
	})
	leader, others := leaderOf(t, rigs...)
	a, b := others[0].connect(t), others[1].connect(t)
	a.mustCreate("/n", "1", jute.ModePersistent)
	b.must(jute.OpAuth, linearizable("linearizable"), jute.OK)
	for i := range 50 {
		v := string(rune('A' + i))
		a.must(jute.OpSetData, setTo("/n", v), jute.OK)
		if got := b.must(jute.OpGetData, look("/n"), jute.OK); got.data(t) != v {
			t.Fatalf("read %q after %q was written", got.data(t), v)
		}
	}
	a.must(jute.OpSync, &jute.PathRequest{Path: "/"}, jute.OK)
	onLeader := leader.connect(t)
	began := time.Now()
	w.set(leader.options.ServerID, true)
	a.must(jute.OpSetData, setTo("/n", "after"), jute.OK) // on the same connection
	t.Logf("a write over the election took %v", time.Since(began))
	if got := b.must(jute.OpGetData, look("/n"), jute.OK); got.data(t) != "after" {
		t.Errorf("data %q", got.data(t))
	}
	eventually(t, "read-only", func() bool {
		graces[leader.options.ServerID].Advance(graceForever)
		return leader.server.available.serving() == stateReadOnly
	})
	onLeader.wantClosed()
	ro := leader.connectReadOnly(t)
	ro.must(jute.OpGetData, look("/n"), jute.OK)
	moved := others[0].reattach(t, onLeader)
	if moved.welcome.SessionID != onLeader.welcome.SessionID {
		t.Errorf("moved as %+v", moved.welcome)
	}
	w.set(leader.options.ServerID, false)
	ro.wantClosed()
	leaderOf(t, rigs...)
	back := leader.reattach(t, onLeader)
	moved.wantClosed()
	if got := back.must(jute.OpGetData, look("/n"), jute.OK); got.data(t) != "after" {
		t.Errorf("data %q", got.data(t))
	}
}

// deadline is when the leader of these servers expires a session, if it knows it and hears no more of it.
func deadline(t *testing.T, id jute.SessionID, rigs ...*rig) (at time.Duration) {
	t.Helper()
	eventually(t, "the leader knows when the session ends", func() bool {
		leader, _ := leaderOf(t, rigs...)
		now := leader.server.elapsed()
		for _, b := range leader.server.tracker.Load().Buckets() {
			if slices.Contains(b.Sessions, id) {
				at = now + b.In
				return true
			}
		}
		return false
	})
	return at
}

// TestRaftGroupExpiry: a silent session of a follower ends, and one that talks to a follower is renewed by its reports.
func TestRaftGroupExpiry(t *testing.T) {
	rigs, _ := startRaft(t, func(_ uint64, o *Options) { quick(o); o.TickTime = 200 * time.Millisecond })
	_, others := leaderOf(t, rigs...)
	alive, silent := others[0].connect(t), others[1].connect(t)
	silent.mustCreate("/e", "", jute.ModeEphemeral)
	alive.must(jute.OpSync, &jute.PathRequest{Path: "/"}, jute.OK)
	for _, r := range rigs {
		eventually(t, "the session is short from now on", func() bool {
			return !others[0].exists("/e") || r.server.tracker.Load().SetTimeout(silent.welcome.SessionID, time.Second)
		})
	}
	before := deadline(t, alive.welcome.SessionID, rigs...)
	eventually(t, "the silent one expires", func() bool {
		alive.wantSilence()
		return !others[0].exists("/e")
	})
	silent.wantClosed()
	eventually(t, "the other is renewed", func() bool {
		alive.wantSilence()
		return deadline(t, alive.welcome.SessionID, rigs...) > before+time.Second
	})
}
