package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"zkd/compat-tests/faults"
)

// Plan is one run. It is kept as JSON.
type Plan struct {
	Seed         uint64
	Schedule     uint64 `json:",omitempty"` // in which order goroutines run, beside Seed
	Participants int
	Observers    int
	Settings     []string // lines of each zoo.cfg
	Tick         time.Duration
	Least, Most  time.Duration // what a message takes
	Sync         time.Duration // what a sync of a disk takes, about
	DiskBytes    int64         // of each disk; 0: endless
	Clients      int           // on frames of our own
	GoClients    int           // on go-zookeeper
	Pace         time.Duration // of each client
	Timeout      time.Duration // of their sessions
	Length       time.Duration // of the part with deeds
	Deeds        []Deed        // in the order of their times
	// Stays is done at the end of that, and is not undone until it was seen that writes go on; nil: nothing.
	Stays *Deed `json:",omitempty"`
	// Linger is for how long it is looked at what there is on the servers while that stays: nothing may grow. 0: not.
	Linger time.Duration `json:",omitempty"`
	// Roles are further clients, each with a concept of its own.
	Roles []faults.Cast `json:",omitempty"`
	// Spares are servers that an operator may add, and Members is what he does to the membership.
	Spares  int    `json:",omitempty"`
	Members []Deed `json:",omitempty"`
	// Admin is what an operator asks the admin servers for.
	Admin []Deed `json:",omitempty"`
	// Starts is when each server starts for the first time; nil: all at once.
	Starts []time.Duration `json:",omitempty"`
	// Rest is how long the servers are left alone at the end, with nobody who asks them anything: they compare their
	// states in less. 0: not at all.
	Rest time.Duration `json:",omitempty"`
	// Knobs are limits in the sources that are others in this run, by Knob.Key.
	Knobs map[string]int64 `json:",omitempty"`
	// FromZero says that the servers are numbered from 0.
	FromZero bool `json:",omitempty"`
	// Import is what an Apache ZooKeeper server has left, with which the ensemble begins; nil: nothing.
	Import *Import `json:",omitempty"`
	// Before says that all servers begin as the version before; Deeds bring them to the present one.
	Before bool `json:",omitempty"`
	// Plant is the bug that the servers have, of those in plants.
	Plant string `json:",omitempty"`
}

// Deed is something that befalls servers.
type Deed struct {
	At    time.Duration // since the clients have begun
	What  Kind
	Whom  int           // index of a server; Leader is who leads then
	Other int           // index of another server, where there are two
	For   time.Duration // until it is undone
	Much  int           // how much, in per mille of what there can be
}

// Leader as Whom is the server that leads.
const Leader = -1

// idleLeader is the line that has the leader serve no clients.
const idleLeader = "leaderServes=no"

// Kind says what befalls a server.
type Kind string

// The kinds.
const (
	Kill      Kind = "kill"       // the process, at once
	KillAll   Kind = "kill all"   // likewise
	Power     Kind = "power"      // goes off: what was not synced may be gone
	PowerAll  Kind = "power all"  // likewise
	Stop      Kind = "stop"       // as an operator does
	Isolate   Kind = "isolate"    // from all other servers
	Silence   Kind = "silence"    // what it sends to other servers is held
	Deafen    Kind = "deafen"     // what other servers send to it is held
	CutLine   Kind = "cut line"   // between two servers
	Mute      Kind = "mute"       // connections with it open, and carry nothing
	SlowLines Kind = "slow lines" // what it sends takes long
	Reset     Kind = "reset"      // its connections with the other servers
	SlowDisk  Kind = "slow disk"
	HangDisk  Kind = "hang disk"
	FailDisk  Kind = "fail disk" // each write fails
	LoseDisk  Kind = "lose disk" // an empty one takes its place
	Skew      Kind = "skew"      // its clock is wrong
	Pause     Kind = "pause"     // its process does not run, and its machine does
	FillDisk  Kind = "fill disk" // something else takes nearly all of it
	RotDisk   Kind = "rot disk"  // a bit is turned over while the server is down; the disk is replaced in the end
	Storm     Kind = "storm"     // all servers crash again and again, each at times of its own
	Absent    Kind = "absent"    // it is not there before all else is over; only as what stays
)

// diskBytes is how large a disk is that can be filled: enough for what the clients of a run write.
const diskBytes = 256 << 20

// kinds are those that are drawn, in proportion.
var kinds = []Kind{
	Kill, Kill, Kill, KillAll, Power, Power, PowerAll, Stop, Stop,
	Isolate, Isolate, Silence, Deafen, CutLine, CutLine, Mute, SlowLines, SlowLines, Reset, Reset,
	SlowDisk, SlowDisk, HangDisk, HangDisk, FailDisk, LoseDisk, LoseDisk, Skew, Pause, Pause,
	FillDisk, FillDisk, RotDisk, Storm,
}

// staying are those that may stay while writes go on, if they befall one server of at least three.
var staying = []Kind{Kill, Isolate, CutLine, SlowLines, HangDisk, SlowDisk, Skew, LoseDisk, Pause, FillDisk}

// Draw draws a plan.
func Draw(seed uint64) *Plan {
	r := drawer{rand.New(rand.NewPCG(seed, 0x706c616e))} //nolint:gosec // a run must repeat
	p := &Plan{
		Seed: seed, Participants: 3, Tick: time.Duration(one(r, 200, 500, 1000)) * time.Millisecond,
		Least:   r.between(50*time.Microsecond, time.Millisecond),
		Sync:    r.between(100*time.Microsecond, 5*time.Millisecond),
		Clients: 2 + r.IntN(4), GoClients: r.IntN(3),
		Pace:   r.between(20*time.Millisecond, 100*time.Millisecond),
		Length: r.between(5*time.Second, 20*time.Second),
	}
	p.Most = p.Least + r.between(0, 4*time.Millisecond)
	p.Timeout = p.Tick * time.Duration(4+r.IntN(12))
	switch {
	case r.chance(20):
		p.Participants = 5
	case r.chance(10):
		p.Participants = 1
	}
	if r.chance(25) {
		p.Observers = 1
	}
	if r.chance(50) {
		p.DiskBytes = diskBytes
	}
	p.Settings = r.settings(p)
	gap := r.between(200*time.Millisecond, 3*time.Second)
	for at := r.upTo(gap); at < p.Length; at += r.between(gap/4, gap*2) {
		p.Deeds = append(p.Deeds, r.deed(p, kinds, at))
	}
	if p.Participants >= 3 && r.chance(60) {
		d := r.deed(p, staying, p.Length)
		if d.What == SlowLines { // a write through another server takes four ways, and its client waits for so long
			d.Much = min(d.Much, int(1000*p.Timeout/12/laterMost))
		}
		p.Stays = &d
	}
	p.Roles = drawRoles(seed)
	drawMembers(p)
	drawAdmin(p)
	if p.Stays = drawAbsent(p); p.Stays != nil {
		p.Linger = drawLinger(seed)
		if p.Stays.What == SlowLines {
			p.Settings = slices.DeleteFunc(p.Settings, func(l string) bool { return l == takesOne })
		}
	}
	p.drawFaults()
	if r.chance(20) {
		p.Rest = 40 * time.Second
	}
	p.drawBefore()
	p.drawImport()
	p.drawNumbers()
	p.drawLarge()
	p.Knobs = drawKnobs(p)
	return p
}

// fromZeroPercent is how many plans of a hundred have servers that are numbered from 0.
const fromZeroPercent = 12

// drawNumbers draws, from numbers of their own, what the servers are numbered from. The version before knows no server
// 0.
func (p *Plan) drawNumbers() {
	r := drawer{rand.New(rand.NewPCG(p.Seed, 0x7a65726f))} //nolint:gosec // a run must repeat
	p.FromZero = r.chance(fromZeroPercent) && !p.Before
}

// small tells whether the ensemble begins with too few voters to do without one.
func (p *Plan) small() bool { return p.Participants < 3 }

// skews reports whether a server's clock is wrong at some time.
func (p *Plan) skews() bool {
	return p.Stays != nil && p.Stays.What == Skew ||
		slices.ContainsFunc(p.Deeds, func(d Deed) bool { return d.What == Skew || d.What == Drift })
}

// rolePercent is how many plans of a hundred have clients of a role.
const rolePercent = 30

// drawRoles draws the further clients from numbers of their own: a new role leaves the rest of each plan as it is. None
// is Large, which drawLarge draws.
func drawRoles(seed uint64) (all []faults.Cast) {
	for i, name := range faults.RoleNames() {
		r := drawer{rand.New(rand.NewPCG(seed, 0x726f6c65+uint64(i)))} //nolint:gosec // a run must repeat
		if name != faults.Large && r.chance(rolePercent) {
			all = append(all, faults.Cast{Role: name, Clients: 1 + r.IntN(3)})
		}
	}
	return all
}

// drawer draws.
type drawer struct{ *rand.Rand }

// upTo draws a duration below d.
func (r drawer) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(d)))
}

// between draws a duration.
func (r drawer) between(low, high time.Duration) time.Duration { return low + r.upTo(high-low) }

// chance is true in percent cases of a hundred.
func (r drawer) chance(percent int) bool { return r.IntN(100) < percent }

// one draws one of several.
func one[T any](r drawer, from ...T) T { return from[r.IntN(len(from))] }

// syncTicks is syncLimit: for so many ticks servers and their leader do without each other.
const syncTicks = 4

// settingsAlways is how many lines of zoo.cfg each plan begins with.
const settingsAlways = 10

// settings draws lines of zoo.cfg: limits that are seldom reached are small at times, so that what happens there does.
func (r drawer) settings(p *Plan) []string {
	lines := []string{
		fmt.Sprintf("tickTime=%d", p.Tick.Milliseconds()), "initLimit=20", fmt.Sprintf("syncLimit=%d", syncTicks),
		"extendedTypesEnabled=true",
		fmt.Sprintf("zkd.electionTimeout=%d", one(r, 300, 500, 1000)),
		fmt.Sprintf("zkd.removedGrace=%d", drawRemovedGrace(p.Seed)),
		"reconfigEnabled=true", "enforceQuota=true", "4lw.commands.whitelist=*", "znode.container.checkIntervalMs=500",
	}
	maybe := func(percent int, key string, from ...int) {
		if r.chance(percent) {
			lines = append(lines, fmt.Sprintf("%s=%d", key, one(r, from...)))
		}
	}
	maybe(60, retainBytes, leastRetained, 16<<10, 256<<10)
	maybe(30, "zkd.snapshotRate", 4<<10, 64<<10, 1<<20)
	maybe(20, "globalOutstandingLimit", 1, 4, 16)
	maybe(20, "zkd.leaderGrace", 0, 200, 5000)
	maybe(10, "request_throttle_max_requests", 1, 3, 10)
	maybe(10, "largeRequestThreshold", 64, 512)
	maybe(10, "fsync.warningthresholdms", 1, 20)
	maybe(10, "zkd.slowRequestThreshold", 1, 100)
	if slices.Contains(lines, slowestSnapshots) { // else writes go on faster than that: see unsuited
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, retainBytes+"=") })
	}
	if r.chance(10) {
		lines = append(lines, "zkd.linearizableReads=true")
	}
	if r.chance(10) && p.Participants >= 3 {
		lines = append(lines, idleLeader)
	}
	return lines
}

// takesOne is the line with which a server takes one request at a time. On lines that stay slow each client waits for
// those of all others then.
const takesOne = "request_throttle_max_requests=1"

// retainBytes bounds what the log keeps for members that are behind, and leastRetained is the least that it is here:
// ten entries or so.
const (
	retainBytes   = "zkd.log.retainBytes"
	leastRetained = 1 << 10
)

// slowestSnapshots is the line with the least rate at which a member is sent a snapshot.
const slowestSnapshots = "zkd.snapshotRate=4096"

// drawRemovedGrace draws for how many milliseconds a server that is removed serves on, from numbers of its own: none,
// too few to be seen, or as many as pass until the next deed or the one after it.
func drawRemovedGrace(seed uint64) int {
	r := drawer{rand.New(rand.NewPCG(seed, 0x67726163))} //nolint:gosec // a run must repeat
	return one(r, 0, 200, 3000, 20_000)
}

// deed draws what happens at a time.
func (r drawer) deed(p *Plan, from []Kind, at time.Duration) Deed {
	all := p.Participants + p.Observers
	d := Deed{At: at, What: one(r, from...), Whom: r.IntN(all), For: r.between(100*time.Millisecond, 5*time.Second),
		Much: r.IntN(1000)}
	if r.chance(50) {
		d.Whom = Leader
	}
	if all > 1 {
		d.Other = r.IntN(all)
	}
	return d
}

// String is a line of a story.
func (d *Deed) String() string {
	whom := fmt.Sprintf("s%d", d.Whom+1)
	if d.Whom == Leader {
		whom = "the leader"
	}
	return fmt.Sprintf("%s: %s, s%d, for %v, %d of 1000", d.What, whom, d.Other+1, d.For, d.Much)
}
