package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
	"zkd/jute"
)

// timeoutMoves is asked for the session of a reconfig.
const timeoutMoves = 15 * time.Second

// Nemesis does harm to an ensemble, as its seed says. It belongs to the test's goroutine.
type Nemesis struct {
	tb       testing.TB
	e        *ensemble.Ensemble
	rand     *rand.Rand
	now      func() int64
	faults   []fault
	schedule []string
	full     map[*ensemble.Server]bool // its disk was full: it may have ended
}

// fault does something to one server, which leads or does not, and returns what ends it.
type fault struct {
	name   string
	leader bool
	do     func(n *Nemesis, victim *ensemble.Server) (heal func())
}

// Disks is what the servers' disks allow.
type Disks struct {
	Fill bool // they can be full
	Hang bool // they can hang
	Lose bool // they can be emptied, one after the other
}

// NewNemesis returns one that does to the disks what they allow.
func NewNemesis(tb testing.TB, e *ensemble.Ensemble, r *rand.Rand, now func() int64, disks Disks) *Nemesis {
	n := &Nemesis{tb: tb, e: e, rand: r, now: now, full: map[*ensemble.Server]bool{}}
	n.faults = []fault{
		{"kill -9 the leader", true, kill}, {"kill -9 a follower", false, kill}, {"kill -9 all", true, killAll},
		{"stop the leader", true, stop}, {"stop a follower", false, stop},
		{"pause the leader", true, pause}, {"pause a follower", false, pause},
		{"cut off the leader", true, isolate}, {"cut off a follower", false, isolate},
		{"cut what the leader sends", true, mute}, {"cut what the leader hears", true, deafen},
		{"cut a line", false, cutLine},
	}
	if _, ok := e.Network.(ensemble.Worsener); ok {
		n.faults = append(n.faults, fault{"slow down all lines", false, slowDown},
			fault{"lose the leader's connections on one side", true, halfOpen})
	}
	if e.Dynamic {
		n.faults = append(n.faults, fault{"move all addresses", false, moveAll})
	}
	if disks.Lose {
		n.faults = append(n.faults, fault{"empty the leader's disk", true, emptyDisk},
			fault{"empty a follower's disk", false, emptyDisk})
	}
	if disks.Hang {
		n.faults = append(n.faults, fault{"hang the leader's disk", true, hangDisk},
			fault{"hang a follower's disk", false, hangDisk})
	}
	if disks.Fill {
		n.faults = append(n.faults, fault{"fill the leader's disk", true, fillDisk},
			fault{"fill a follower's disk", false, fillDisk})
	}
	return n
}

// swapShare is how much more often a change of version comes than another fault.
const swapShare = 4

// Mix adds the faults of an upgrade that never ends: a server that is killed comes back as another zkd. binary is that
// one; the other is the module's own.
func (n *Nemesis) Mix(binary string) {
	swap := func(n *Nemesis, victim *ensemble.Server) func() {
		victim.Kill9()
		if victim.Binary == "" {
			victim.Binary = binary
		} else {
			victim.Binary = ""
		}
		n.note("server %d is %q from now on", victim.ID, victim.Binary)
		return victim.Launch
	}
	for range swapShare {
		n.faults = append(n.faults, fault{"another version for the leader", true, swap},
			fault{"another version for a follower", false, swap})
	}
}

// Schedule returns what was done, a line each.
func (n *Nemesis) Schedule() string { return strings.Join(n.schedule, "\n") }

// Run does one fault after another for d, and then heals all and returns once all servers serve.
func (n *Nemesis) Run(d time.Duration) {
	n.tb.Helper()
	end := n.now() + int64(d)
	n.wait(time.Second)
	for n.now() < end && !n.tb.Failed() {
		f := n.faults[n.rand.IntN(len(n.faults))]
		victim := n.victim(f.leader)
		hold := time.Duration(300+n.rand.IntN(3500)) * time.Millisecond
		n.note("%s: server %d, for %v", f.name, victim.ID, hold)
		heal := f.do(n, victim)
		n.wait(hold)
		heal()
		n.note("healed")
		n.wait(time.Duration(500+n.rand.IntN(3000)) * time.Millisecond)
		n.launch()
	}
	n.note("the end")
	n.e.StartAll()
	n.note("all serve")
}

// Restart stops a server cleanly, starts it again, and returns once all serve.
func (n *Nemesis) Restart(s *ensemble.Server) {
	n.tb.Helper()
	n.note("restart server %d, a %s", s.ID, s.Mode())
	s.Stop()
	n.note("stopped")
	s.Launch()
	n.e.AwaitServing(n.e.Servers...)
	n.note("all serve")
}

// launch starts what a full disk has ended, and finds what has ended by itself.
func (n *Nemesis) launch() {
	n.tb.Helper()
	for _, s := range n.e.Servers {
		if n.full[s] {
			n.decided(s)
		}
		if s.Running() {
			continue
		}
		if !n.full[s] {
			n.tb.Errorf("server %d has ended by itself; the end of its log:\n%s", s.ID, s.LogTail(30))
		}
		s.Launch()
	}
	clear(n.full)
}

// decidedWithin is how long a server may take to end, or to serve, when its disk has space again. Much more than it
// needs, and much less than it would take to give up a clean stop.
const decidedWithin = 45 * time.Second

// decided waits until a server whose disk was full has ended or serves.
func (n *Nemesis) decided(s *ensemble.Server) {
	n.tb.Helper()
	if why := ensemble.Await(decidedWithin, func() (bool, string) {
		mode := s.Mode()
		return !s.Running() || mode != "", fmt.Sprintf("server %d neither ends nor serves, its mode is %q", s.ID, mode)
	}); why != "" {
		n.tb.Errorf("%v after its disk had space again: %s", decidedWithin, why)
	}
}

func (n *Nemesis) victim(leader bool) *ensemble.Server {
	l := n.e.Leader()
	if leader && l != nil {
		return l
	}
	for {
		if s := n.e.Servers[n.rand.IntN(len(n.e.Servers))]; s != l {
			return s
		}
	}
}

func (n *Nemesis) note(format string, args ...any) {
	n.schedule = append(n.schedule, fmt.Sprintf("%9.3f ", float64(n.now())/1e9)+fmt.Sprintf(format, args...))
}

func (n *Nemesis) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

func kill(_ *Nemesis, victim *ensemble.Server) func() {
	victim.Kill9()
	return victim.Launch
}

func killAll(n *Nemesis, _ *ensemble.Server) func() {
	for _, s := range n.e.Servers {
		s.Kill9()
	}
	return func() {
		for _, s := range n.e.Servers {
			s.Launch()
		}
	}
}

func stop(_ *Nemesis, victim *ensemble.Server) func() {
	victim.Stop()
	return victim.Launch
}

func pause(_ *Nemesis, victim *ensemble.Server) func() {
	victim.Pause()
	return victim.Resume
}

func isolate(n *Nemesis, victim *ensemble.Server) func() {
	n.e.Isolate(victim.ID)
	return n.e.Network.Heal
}

// mute cuts what the victim sends; it still hears the others.
func mute(n *Nemesis, victim *ensemble.Server) func() {
	for _, s := range n.e.Servers {
		if s != victim {
			n.e.Network.Cut(victim.ID, s.ID)
		}
	}
	return n.e.Network.Heal
}

// deafen cuts what the victim hears.
func deafen(n *Nemesis, victim *ensemble.Server) func() {
	for _, s := range n.e.Servers {
		if s != victim {
			n.e.Network.Cut(s.ID, victim.ID)
		}
	}
	return n.e.Network.Heal
}

// cutLine cuts the line between the victim and one other, in both directions; both reach the third.
func cutLine(n *Nemesis, victim *ensemble.Server) func() {
	other := n.e.Servers[(victim.ID+n.rand.IntN(len(n.e.Servers)-1))%len(n.e.Servers)]
	n.e.Network.Cut(victim.ID, other.ID)
	n.e.Network.Cut(other.ID, victim.ID)
	return n.e.Network.Heal
}

// slowDown holds back what the servers send to each other, by less than a time-out.
func slowDown(n *Nemesis, _ *ensemble.Server) func() {
	n.e.Network.(ensemble.Worsener).Delay(time.Duration(10+n.rand.IntN(100)) * time.Millisecond)
	return n.e.Network.Heal
}

// halfOpen closes the victim's ends of its connections; the others do not hear of it.
func halfOpen(n *Nemesis, victim *ensemble.Server) func() {
	for _, s := range n.e.Servers {
		if s != victim {
			n.e.Network.(ensemble.Worsener).HalfOpen(victim.ID, s.ID)
		}
	}
	return n.e.Network.Heal
}

// emptyDisk takes a server's disk once all others hold what it held: a majority has to keep theirs, and who is still
// being sent the state keeps nothing yet.
func emptyDisk(n *Nemesis, victim *ensemble.Server) func() {
	n.e.AwaitServing(n.e.Servers...)
	victim.Kill9()
	victim.Wipe()
	return func() {
		victim.Launch()
		n.e.AwaitServing(n.e.Servers...)
	}
}

// moveAll gives all servers other ports for each other, with one reconfig. Whether it is taken the servers decide. One
// from before feature levels listens at a new address only once it starts again, and is not asked for it.
func moveAll(n *Nemesis, _ *ensemble.Server) func() {
	for _, one := range n.e.Servers {
		if one.Binary != "" {
			n.note("not moved: server %d is of the version before", one.ID)
			return func() {}
		}
	}
	over := make(chan struct{})
	s, err := Open(SessionOptions{
		Addrs: n.e.Addrs(), Timeout: timeoutMoves, Rand: n.rand, Now: n.now, Violated: n.tb.Errorf, Stop: over,
	})
	if err != nil {
		n.tb.Errorf("nobody takes a session for a reconfig: %v", err)
		return func() {}
	}
	defer s.Drop()
	lines := make([]string, len(n.e.Servers))
	for i, one := range n.e.Servers {
		one.Move()
		lines[i] = one.Member(map[bool]string{false: "participant", true: "observer"}[one.Observer])
	}
	reply, err := s.AddAuth("digest", target.SuperUser+":"+target.SuperPassword)
	if err == nil && reply.Err == jute.OK {
		reply, _, err = s.ReconfigTo(strings.Join(lines, ","))
	}
	n.note("moved: %v, %v", reply.Err, err)
	return func() {}
}

// hangDisk has the victim's disk not answer. With ZooKeeper nothing is to be seen of it; with zkd a leader hands over
// if it lasts.
func hangDisk(_ *Nemesis, victim *ensemble.Server) func() {
	victim.HangDisk()
	return victim.ThawDisk
}

func fillDisk(n *Nemesis, victim *ensemble.Server) func() {
	n.full[victim] = true
	victim.FillDisk()
	return victim.FreeDisk
}
