package sim

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/storage/datadir"
	"zkd/storage/raftlog"
	"zkd/storage/state"
)

// member is one server of the ensemble: what survives its crashes, and, while it is up, its node.
type member struct {
	w       *world
	id      uint64
	learner bool
	reserve bool // not a founder: it joins when the others take it in
	retired bool // it was taken out of the ensemble for good
	disk    *disk
	skew    time.Duration // its clock's error, as proposals show it
	everUp  bool

	up      bool
	life    int // counts starts, so that nothing meant for one life happens in another
	dir     *datadir.Dir
	log     *raftlog.Log
	machine *machine
	stepper *quorum.Stepper
	server  *server
	state   quorum.State

	planned       [partCount]bool
	ticks         int
	transfers     []*snapshotTransfer // from here
	transfer      *snapshotTransfer   // the one that has just begun
	receiving     bool                // a checkpoint
	pausedUntil   time.Duration
	slowDisk      time.Duration // an append takes up to this long
	slowApply     time.Duration
	hangsLog      bool // no append ends
	hangsState    bool // nothing is applied, nor flushed
	diskTransfers uint64
	refusing      bool   // it takes no checkpoint
	forgettable   uint64 // the entry up to which its log could be forgotten when its compactor had its last turn
	transferBytes int    // bytes that a checkpoint gets through, until it is cut off; < 0: all

	lost  bool   // its disk was lost, or it comes late, and it was not seen to take part since: see group.go
	wiped bool   // its disk was lost once
	data  bool   // it has durable entries
	kept  []byte // the incarnation that it had, with PlantKeptIncarnation
	// What it starts from without data: the members by its file of the configuration, and whether it is told that it
	// joins an ensemble that runs.
	listed  []quorum.Member
	joining bool
	held    []uint64 // the voters by what it knew when it crashed
}

// part is a part of a node that has its own turns.
type part int

// The parts.
const (
	partLoop part = iota
	partAppend
	partApply
	partRead
	partCompact
	partCheckpoint
	partCount
)

// makeMembers makes the members, none of which is up.
func (w *world) makeMembers() {
	p := &w.profile
	for i := range p.participants + p.observers + p.reserves {
		m := &member{
			w: w, id: uint64(i + 1), transferBytes: -1,
			learner: i >= p.participants && i < p.participants+p.observers,
			reserve: i >= p.participants+p.observers,
		}
		m.disk = newDisk(w.cfg.Plant == PlantLyingDisk)
		m.skew = w.upTo(2*p.skewMax) - p.skewMax
		w.net.join(m)
		w.members = append(w.members, m)
	}
	for _, m := range w.members {
		m.list(w.members[:p.participants+p.observers])
	}
}

// list writes a founder's file of the configuration.
func (m *member) list(members []*member) {
	m.listed = nil
	for _, o := range members {
		m.listed = append(m.listed, quorum.Member{ID: o.id, Learner: o.learner})
	}
}

// discard logs nothing.
var discard = slog.New(slog.DiscardHandler)

// logger is where the node's messages go: nowhere, or into the text of the trace.
func (m *member) logger() *slog.Logger {
	if m.w.cfg.Trace == nil {
		return discard
	}
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			a.Value = slog.StringValue(fmt.Sprintf("%.4f", m.w.now.Seconds()))
		}
		return a
	}}
	return slog.New(slog.NewTextHandler(m.w.cfg.Trace, options)).With(slog.Uint64("member", m.id))
}

// start starts the member from its disk.
func (m *member) start() {
	if m.up || m.retired {
		return
	}
	m.life++
	m.state = quorum.State{}
	m.planned = [partCount]bool{}
	m.receiving, m.transfers, m.forgettable = false, nil, 0
	m.hangsLog, m.hangsState, m.diskTransfers = false, false, 0
	m.w.trace.note(m.w.now, "start", m.id, uint64(m.life))
	m.server = newServer(m)
	if err := m.open(); err != nil {
		m.w.fail("start of member %d: %w", m.id, err)
		return
	}
	m.up, m.everUp = true, true
	m.w.trace.note(m.w.now, "started", m.id, m.machine.AppliedIndex(), m.log.FirstIndex(), m.log.LastIndex())
	m.w.net.memberUp(m)
	m.tick()
	m.server.begin()
	m.wantAll()
}

// open opens the stores and the node.
func (m *member) open() (err error) {
	options := datadir.Options{Dir: "data", FS: m.disk, Logger: discard}
	if m.dir, err = datadir.Open(options); err != nil {
		return err
	}
	m.log, err = raftlog.Open(raftlog.Options{
		Dir: m.dir.RaftLogDir(), FS: m.disk, Logger: discard, CacheBytes: 64 << 10,
		TailBytes: m.w.profile.recentBytes,
	})
	if err != nil {
		return err
	}
	if err := m.finishInstall(); err != nil {
		return err
	}
	if err := m.plantIncarnation(); err != nil {
		return err
	}
	store, err := state.OpenMachine(state.MachineOptions{
		Dir: m.dir.StateDir(), FS: m.disk, Logger: discard, CacheBytes: 256 << 10, BlockCacheBytes: 256 << 10,
		// Nothing is flushed but by an explicit step: what a crash takes back does not depend on Pebble's goroutines.
		FlushBytes: 1 << 40, FlushRequests: 1 << 40,
	})
	if err != nil {
		return err
	}
	if err := m.dir.ForgetReplaced(); err != nil {
		return err
	}
	m.machine = &machine{Machine: store, m: m}
	m.stepper, err = quorum.NewStepper(m.options())
	return err
}

// options is how the node runs.
func (m *member) options() quorum.Options {
	w, p := m.w, &m.w.profile
	o := quorum.Options{
		ID: m.id, Log: m.log, Machine: m.machine, Clock: m.w.clock, Now: m.now, Logger: m.logger(),
		Rand:      rand.New(rand.NewPCG(m.w.rng.Uint64(), 1)), //nolint:gosec // a run must repeat
		Observer:  m.server,
		Joining:   m.reserve || m.joining,
		Transport: transport{m}, SnapshotSender: snapshotSender{m},
		CheckpointDir: "data/checkpoints", FS: m.disk,
		Bootstrap: p.bootstrap,
		OnState:   m.onState, OnReport: m.server.onReport, OnReplaced: m.server.onReplaced,
		OnReplacing:   m.server.end,
		OnFatal:       func(err error) { m.w.fail("member %d has failed: %w", m.id, err) },
		TickInterval:  p.tick,
		ElectionTicks: p.electionTicks,
		CompareTicks:  p.compareTicks,
		MaxEntryBytes: p.maxEntryBytes,
		TailEntries:   p.tailEntries, TailBytes: 1 << 10, RetainBytes: p.retainBytes,
		FlushInterval: p.flushInterval,
	}
	if !m.reserve {
		o.Members = m.listed
	}
	if p.reconfigs {
		o.Asking = func(id uint64) bool { return w.members[id-1].up }
	}
	return o
}

// transport is the network as a node sees it.
type transport struct{ m *member }

// Send implements quorum.Transport.
func (t transport) Send(to uint64, kind uint8, encode func([]byte) []byte) bool {
	return t.m.w.net.send(t.m, to, kind, encode)
}

// SendInOrder implements quorum.Transport: nothing is in order here.
func (t transport) SendInOrder(to uint64, kind uint8, encode func([]byte) []byte, kept []byte) bool {
	return t.Send(to, kind, func(b []byte) []byte { return append(encode(b), kept...) })
}

// onState notes what part the member plays.
func (m *member) onState(s quorum.State) {
	m.w.trace.note(m.w.now, "state", m.id, s.Leader, s.Term, hashString(string(s.Role)))
	if s.Role == quorum.RoleLeader && m.state.Role != quorum.RoleLeader {
		m.w.report.Elections++
		m.w.ledger.leads(m, s.Term)
		m.server.lead()
	}
	m.state = s
}

// after does something that may concern the node, d from now; see plan.
func (m *member) after(d time.Duration, do func()) {
	m.plan(d, func() {
		do()
		m.want(partLoop)
	})
}

// plan does something on the member, d from now, unless it is gone by then; a paused member does it when it goes on.
func (m *member) plan(d time.Duration, do func()) {
	life := m.life
	var turn func()
	turn = func() {
		switch {
		case !m.up || m.life != life:
		case m.w.now < m.pausedUntil:
			m.w.queue.put(m.pausedUntil, turn)
		default:
			do()
		}
	}
	m.w.after(d, turn)
}

// want plans a turn for a part of the node, which may have work.
func (m *member) want(p part) {
	if m.planned[p] || !m.up {
		return
	}
	m.planned[p] = true
	m.plan(m.delay(p), func() { m.awaitDisk(p) })
}

// awaitDisk gives a part its turn once the disk that it uses answers.
func (m *member) awaitDisk(p part) {
	if (p == partAppend || p == partRead) && m.hangsLog || p == partApply && m.hangsState ||
		(p == partCompact || p == partCheckpoint) && (m.hangsLog || m.hangsState) {
		m.plan(m.w.profile.tick, func() { m.awaitDisk(p) })
		return
	}
	m.planned[p] = false
	m.turn(p)
}

// turn gives a part of the node a turn, and then one to those that it may have given work.
func (m *member) turn(p part) {
	var worked bool
	var err error
	switch p {
	case partLoop:
		worked, err = m.stepper.Turn()
	case partAppend:
		worked, err = m.stepper.Append()
	case partApply:
		worked, err = m.stepper.Apply()
	case partRead:
		if worked, err = m.stepper.Read(); worked {
			m.w.count(drawnUncachedRead)
		}
	case partCompact:
		_, err = m.stepper.Compact()
		m.checkLog()
	case partCheckpoint:
		m.checkpoint()
	}
	if err != nil {
		m.w.fail("member %d, part %d: %w", m.id, p, err)
	}
	if !worked {
		return
	}
	m.w.trace.note(m.w.now, "turn", m.id, uint64(p))
	m.wantAll()
}

// wantAll plans a turn for each part that others give work.
func (m *member) wantAll() {
	for _, p := range []part{partLoop, partAppend, partApply, partRead, partCheckpoint} {
		m.want(p)
	}
}

// delay draws how long it takes until a part has its turn.
func (m *member) delay(p part) time.Duration {
	w := m.w
	switch p {
	case partAppend:
		return w.between(100*time.Microsecond, max(w.profile.fsyncMax, m.slowDisk))
	case partApply:
		return w.upTo(max(500*time.Microsecond, m.slowApply))
	case partRead:
		return w.upTo(w.profile.fsyncMax)
	case partCompact, partCheckpoint:
		return w.upTo(20 * time.Millisecond)
	default:
		return w.upTo(200 * time.Microsecond)
	}
}

// tick passes raft's time.
func (m *member) tick() {
	interval := m.w.profile.tick
	m.plan(m.w.between(interval*9/10, interval*11/10), func() {
		if err := m.stepper.Tick(); err != nil {
			m.w.fail("member %d: %w", m.id, err)
		}
		m.wantAll()
		if m.ticks++; m.ticks%8 == 0 {
			m.want(partCompact)
		}
		if n := m.stepper.Node().Status().DiskTransfers; n > m.diskTransfers {
			m.diskTransfers = n
			m.w.count(drawnDiskTransfer)
		}
		m.tick()
	})
}

// crash ends the member at once. A power cut takes what its disk had not synced, or some of it.
func (m *member) crash(cut powerCut) {
	if !m.up {
		return
	}
	w := m.w
	w.report.Crashes++
	w.trace.note(w.now, "crash", m.id, uint64(cut))
	m.held = m.membership()
	m.hasData()
	if cut == tornCut && m.planned[partAppend] && w.chance(70) {
		m.disk.failing.Store(true)
		_, _ = m.stepper.Append() // nobody hears how it ended
	}
	if cut == noCut { // what the log was given is there, however far Pebble's goroutines have written it
		if err := m.log.Append(nil, nil, true); err != nil {
			w.fail("write the log of member %d: %w", m.id, err)
		}
	}
	left, torn, err := m.disk.crash(cut, w.rng.Uint64())
	if err != nil {
		w.fail("tear the disk of member %d: %w", m.id, err)
	}
	if torn > 0 {
		w.count(drawnTorn)
	}
	w.net.memberDown(m, m.notice(cut))
	m.kill()
	m.disk = left
}

// notice is how late others may hear that the member is gone.
func (m *member) notice(cut powerCut) time.Duration {
	if cut != noCut {
		return 2 * time.Second
	}
	return 5 * time.Millisecond
}

// kill closes what the member has open. Its disk is of no use afterwards.
func (m *member) kill() {
	if !m.up {
		return
	}
	m.up = false
	m.server.end()
	m.stepper.End()
	for _, s := range m.transfers {
		s.stop()
	}
	// A crash has no errors: nobody looks at what these leave behind.
	_ = m.machine.Close()
	_ = m.log.Close()
	_ = m.dir.Close()
}

// now is what the member's clock says.
func (m *member) now() time.Time { return m.w.clock.Now().Add(m.skew) }

// time is the same, for proposals.
func (m *member) time() jute.Millis { return jute.Millis(m.now().UnixMilli()) }

// describe is the member's state in a line.
func (m *member) describe() string {
	if !m.up {
		return fmt.Sprintf("member %d: down, life %d, retired %v", m.id, m.life, m.retired)
	}
	s := m.stepper.Node().Status()
	return fmt.Sprintf("member %d: life %d, paused %v, slow %v %v, hangs %v %v, %v of leader %d, term %d, log %d-%d, "+
		"commit %d, applied %d, durable %d, outstanding %d, voters %v, learners %v, peers %+v", m.id, m.life,
		m.pausedUntil > m.w.now,
		m.slowDisk, m.slowApply, m.hangsLog, m.hangsState, s.Role, s.Leader, s.Term, s.FirstIndex, s.LastIndex,
		s.Commit, s.Applied, s.Durable, s.OutstandingBytes, s.Voters, s.Learners, s.Peers)
}
