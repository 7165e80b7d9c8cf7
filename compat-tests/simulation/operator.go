package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"zkd/compat-tests/faults"
	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/server/sim"
)

// Times of the operator. He looks again after a pause whether what he waits for is there; a session of his may be away
// for as long as a move is prepared, if the servers let it.
const (
	operatorPause   = 200 * time.Millisecond
	operatorTimeout = 15 * time.Second
	// repairAfter is for how long a member may be away after a move: no deed takes it away for as long, and it may be
	// sent a snapshot at the least rate that there is.
	repairAfter = 40 * time.Second
	// errandsEvery is how often the goroutine of the world looks for what the operator wants done to machines.
	errandsEvery = 50 * time.Millisecond
	// changesWithin bounds what is under way when all is mended, and what makes the membership whole after it.
	changesWithin = 3 * servesWithin
)

// votersLeast is with how many voters the operator leaves an ensemble that was not small to begin with.
const votersLeast = 3

// least returns how many voters the ensemble is to have while anything befalls it, and how many in the end.
func (o *operator) least() (always, end int) {
	if o.g.plan.small() {
		return 1, 1
	}
	return 2, votersLeast
}

// superSetting is the line of each zoo.cfg that says who the superuser is.
var superSetting = "DigestAuthenticationProvider.superDigest=" + target.DigestOf(target.SuperUser, target.SuperPassword)

// configPath is the znode of the membership.
const configPath = "/zookeeper/config"

// seat is what the membership says of a server.
type seat struct {
	observer       bool
	peers, clients int // in which of its places it has its ports
}

// operator is who changes the membership, one deed after the other, on a goroutine of his own, in a session of the
// superuser. What his request was answered he does not take for granted: he asks what is.
type operator struct {
	g       *play
	s       *faults.Session
	over    chan struct{} // closed when he is to end
	ended   chan struct{} // closed when he has
	version int64         // of the membership, as he was last told
	unknown bool          // a request of this deed was not answered
	moved   bool          // members have other ports than at their first start, or are others than then
	// given are the lines of zoo.cfg with which a server was repaired last
	given map[uint64][]string
	// staged is how much of a snapshot a server that might have been repaired had received
	staged map[uint64]int64

	mu      sync.Mutex
	seats   map[uint64]seat // guarded by mu, as is the rest: the membership, as he was last told
	busy    bool            // a change is under way
	wounded bool            // a member has lost its disk, or had none, and is not known to be back
	wounds  int             // how often one was about to
	changes int             // how many were begun
	mended  bool            // no further deed is begun
	errands []func()        // for the goroutine of the world
}

// newOperator returns one that knows of the founders.
func newOperator(g *play) *operator {
	o := &operator{g: g, over: make(chan struct{}), ended: make(chan struct{}), seats: map[uint64]seat{},
		given: map[uint64][]string{}, staged: map[uint64]int64{}, wounded: g.plan.Starts != nil}
	for i, s := range g.w.Servers[:g.plan.Participants+g.plan.Observers] {
		o.seats[s.ID] = seat{observer: i >= g.plan.Participants}
	}
	return o
}

// run does all deeds, and then what leaves an ensemble that bears the loss of one.
func (o *operator) run() {
	defer close(o.ended)
	began := time.Now()
	if !o.open() {
		return
	}
	o.ask()
	for i := range o.g.plan.Members {
		d := &o.g.plan.Members[i]
		if wait := time.Until(began.Add(d.At)); wait > 0 {
			o.pause(wait)
		}
		if !o.begin() {
			break
		}
		o.machine(func() {
			o.g.w.Story.Tell("", "-- the operator: %v", d)
			o.g.done[d.What]++
		})
		o.do(d)
		o.rest()
	}
	for _, end := o.least(); !o.done() && o.voters() < end; {
		o.begin()
		o.addVoter()
	}
	o.awaitWhole()
	o.rest()
	o.machine(func() { o.g.w.Story.Tell("", "-- the operator has done all") })
	_, _ = o.s.Close() // it expires else
	o.lookAfter()
}

// lookAfter has members repaired, once all is mended, that have missed a move: when the operator had done all, one that
// was cut off may have seemed to serve. It may for as long as it takes to miss its leader, and the grace behind that.
func (o *operator) lookAfter() {
	if !o.moved {
		return
	}
	for !o.done() && !o.finished() {
		o.pause(operatorPause)
	}
	grace := time.Duration(o.g.plan.setting("zkd.leaderGrace", 0)) * time.Millisecond
	o.pause(syncTicks*o.g.plan.Tick + grace)
	o.awaitWhole()
}

// finished tells whether no further deed is begun.
func (o *operator) finished() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mended
}

// done tells whether there is nothing to be done any more.
func (o *operator) done() bool {
	select {
	case <-o.over:
		return true
	default:
		return o.g.failed()
	}
}

// pause waits.
func (o *operator) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-o.over:
	}
}

// awaitWhole waits until all members serve, with their votes.
func (o *operator) awaitWhole() {
	for since := time.Now(); !o.done() && !o.g.wholeBut(o.g.missing()); o.pause(operatorPause) {
		o.repairAfter(&since)
	}
}

// repairAfter repairs once a while has passed that was waited for members, if they may have missed a move.
func (o *operator) repairAfter(since *time.Time) {
	if o.moved && time.Since(*since) > repairAfter {
		o.repair()
		*since = time.Now()
	}
}

// repair starts members that do not serve with the lines of now, as docs/operations.md has it for one that was down
// while the others moved, or were replaced: they may have been started again since, and then do not listen where it
// looks for them. Who has these lines already, or is being sent a snapshot, needs time alone, and a leader that serves
// nobody nothing (seed 12060591).
func (o *operator) repair() {
	lines := o.lines(o.members())
	for i, s := range o.g.w.Servers {
		member, _ := o.g.belongs(i)
		if !member || s.Away() || o.g.serves(i) || o.g.leadsIdle(i) || slices.Equal(o.given[s.ID], lines) ||
			o.receives(s) {
			continue
		}
		o.given[s.ID] = lines
		o.machine(func() {
			s.Kill()
			s.Configure(lines...)
			s.Start()
		})
	}
}

// receives tells whether a server has more of a snapshot than when that was asked last.
func (o *operator) receives(s *sim.Server) bool {
	before, now := o.staged[s.ID], int64(0)
	o.machine(func() { now = s.Usage(stagedDir).Bytes })
	o.staged[s.ID] = now
	return now > before
}

// begin waits until a change may begin, and reports whether there may be more of them: no disk may be lost that the
// members need, now or after the change. One that is lost, or replaced, while the members are looked at counts.
func (o *operator) begin() bool {
	for !o.done() {
		o.mu.Lock()
		wounded, mended, wounds := o.wounded, o.mended, o.wounds
		if !wounded {
			o.busy = true
			o.changes++
		}
		o.mu.Unlock()
		if !wounded {
			return !mended
		}
		rotten := o.g.rotten
		o.awaitWhole()
		o.mu.Lock()
		o.wounded = rotten || o.g.rotten || o.wounds != wounds
		o.mu.Unlock()
		o.pause(operatorPause)
	}
	return false
}

// rest is the end of a change.
func (o *operator) rest() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = false
}

// wound takes note that a disk is about to be lost, and says why it may not be, "" if it may: there are votes enough,
// all members are whole, and the operator is not about to change who votes, nor was while they were looked at. The
// answers take a while, in which another member could come that has nothing yet (seed 11875869).
func (o *operator) wound() string {
	o.mu.Lock()
	busy, changes := o.busy, o.changes
	o.mu.Unlock()
	_, end := o.least()
	switch {
	case busy:
		return changing
	case o.voters() < max(2, end):
		return "there are too few voters"
	case !o.g.whole():
		return notWhole
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy || o.changes != changes {
		return changing
	}
	o.wounded = true
	o.wounds++
	return ""
}

// changing is why no disk may be lost while the operator is at work.
const changing = "the operator changes the membership"

// finish has no deed begun any more.
func (o *operator) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mended = true
}

// hasEnded tells whether all is done.
func (o *operator) hasEnded() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// machine has something done on the goroutine of the world, and waits for it.
func (o *operator) machine(do func()) {
	done := make(chan struct{})
	o.mu.Lock()
	o.errands = append(o.errands, func() { do(); close(done) })
	o.mu.Unlock()
	select {
	case <-done:
	case <-o.over:
	}
}

// runErrands does what was asked for.
func (o *operator) runErrands() {
	o.mu.Lock()
	due := o.errands
	o.errands = nil
	o.mu.Unlock()
	for _, do := range due {
		do()
	}
}

// seatOf is what the membership says of a server.
func (o *operator) seatOf(id uint64) (seat, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.seats[id]
	return s, ok
}

// members is the membership, which the caller may change.
func (o *operator) members() map[uint64]seat {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.seats)
}

// voters is how many there are.
func (o *operator) voters() (n int) {
	for _, s := range o.members() { // order: a sum
		if !s.observer {
			n++
		}
	}
	return n
}

// bears tells whether a membership has voters enough, and a majority of them among those that are there.
func (o *operator) bears(to map[uint64]seat) bool {
	least, _ := o.least()
	if o.g.plan.small() { // of two none is taken away: what then befalls the other may stop both (decision 32)
		least = min(2, o.voters())
	}
	all, there := o.count(to, 0)
	return there >= least && there > all/2
}

// count is how many voters a membership has, and how many of them are there; one, but for 0, is not.
func (o *operator) count(to map[uint64]seat, without uint64) (all, there int) {
	for id, s := range to { // order: a sum
		if s.observer {
			continue
		}
		if all++; id != without && int(id) != o.g.missing()+1 { //nolint:gosec // small
			there++
		}
	}
	return all, there
}

// server is one of the world's.
func (o *operator) server(id uint64) *sim.Server { return o.g.w.Servers[id-1] }

// lines are those of servers, in the order of their ids.
func (o *operator) lines(seats map[uint64]seat) (lines []string) {
	for _, id := range slices.Sorted(maps.Keys(seats)) {
		s := seats[id]
		lines = append(lines, o.server(id).Line(s.observer, s.peers, s.clients))
	}
	return lines
}

// open opens a session, if there is time for one.
func (o *operator) open() bool {
	options := o.g.options(1003, o.g.w.Addrs())
	options.Timeout, options.Stop = operatorTimeout, o.over
	options.Identities = []faults.Identity{{User: target.SuperUser, Password: target.SuperPassword}}
	for !o.done() {
		s, err := faults.Open(options)
		if err == nil {
			o.s = s
			return true
		}
	}
	return false
}

// connect connects again.
func (o *operator) connect() {
	if err := o.s.Connect(); err != nil {
		o.open()
	}
}

// ask reads the membership, with all that was committed before.
func (o *operator) ask() {
	for !o.done() {
		reply, err := o.s.Sync(configPath)
		var text string
		if err == nil && reply.Err == jute.OK {
			reply, text, _, err = o.s.GetData(configPath, false)
		}
		if err == nil && reply.Err == jute.OK {
			o.told(text)
			return
		}
		o.pause(operatorPause)
		if err != nil {
			o.connect()
		}
	}
}

// told takes what a server has told of the membership.
func (o *operator) told(text string) {
	seats, version, err := o.parseMembers(text)
	if err != nil {
		o.g.violated("the operator was told a membership that cannot be: %v", err)
		return
	}
	if version < o.version {
		o.g.violated("the operator was told version %x of the membership after %x", version, o.version)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.version, o.seats = version, seats
}

// bring asks for a membership until it is so: with the server lines of all, if whole says so, and else with those that
// differ; conditional names the version that it is to follow.
func (o *operator) bring(to map[uint64]seat, whole, conditional bool) {
	o.unknown, o.moved = false, o.moved || o.outdates(to)
	since := time.Now()
	for !o.done() && !maps.Equal(o.members(), to) {
		request := o.request(to, whole)
		if conditional {
			request.CurConfigID = o.version
		}
		before := o.version
		reply, text, err := o.s.ReconfigAs(request)
		switch {
		case err != nil:
			o.unknown = true
			o.connect()
			o.ask()
		case reply.Err == jute.OK:
			o.told(text)
			if now := o.members(); !maps.Equal(now, to) || o.version <= before {
				o.g.violated("a reconfig to %v was told as done, and is version %x after %x: %v", o.lines(to),
					o.version, before, o.lines(now))
			}
		case reply.Err == jute.NewConfigNoQuorum, reply.Err == jute.ReconfigInProgress,
			reply.Err == jute.BadVersion && o.unknown:
			o.pause(operatorPause)
			o.repairAfter(&since) // it may be one that is not found that the new membership needs
			o.ask()
		default:
			o.g.violated("a reconfig to %v was answered with %v", o.lines(to), reply.Err)
		}
	}
}

// outdates tells whether a membership has somebody anew, elsewhere, or not any more: who is away meanwhile, and without
// its data afterwards, may not know who leads then.
func (o *operator) outdates(to map[uint64]seat) bool {
	now := o.members()
	for id, s := range to { // order: whether there is any
		if was, ok := now[id]; !ok || was.peers != s.peers || was.clients != s.clients {
			return true
		}
	}
	return len(now) > len(to)
}

// request is what leads to a membership.
func (o *operator) request(to map[uint64]seat, whole bool) *jute.ReconfigRequest {
	const joining, leaving, members = 1, 2, 4 // which of the three are null
	r := &jute.ReconfigRequest{CurConfigID: -1}
	if whole {
		r.Nulls, r.NewMembers = joining|leaving, strings.Join(o.lines(to), ",")
		return r
	}
	now, other, gone := o.members(), map[uint64]seat{}, []string(nil)
	for id, s := range to { // order: lines sorts
		if before, ok := now[id]; !ok || before != s {
			other[id] = s
		}
	}
	for _, id := range slices.Sorted(maps.Keys(now)) {
		if _, stays := to[id]; !stays {
			gone = append(gone, strconv.FormatUint(o.server(id).Number, 10))
		}
	}
	r.Nulls, r.JoiningServers, r.LeavingServers = members, strings.Join(o.lines(other), ","), strings.Join(gone, ",")
	if len(other) == 0 {
		r.Nulls |= joining
	}
	if len(gone) == 0 {
		r.Nulls |= leaving
	}
	return r
}

// parseMembers reads the text of a membership.
func (o *operator) parseMembers(text string) (map[uint64]seat, int64, error) {
	seats := map[uint64]seat{}
	head, version, ok := strings.Cut(text, "version=")
	n, err := strconv.ParseInt(version, 16, 64)
	if !ok || err != nil {
		return nil, 0, fmt.Errorf("no version in %q", text)
	}
	for line := range strings.Lines(head) {
		var number uint64
		var s seat
		line = strings.TrimSpace(line)
		server, clients, _ := strings.Cut(line, ";")
		name, where, _ := strings.Cut(server, "=")
		if _, err := fmt.Sscanf(name, "server.%d", &number); err != nil {
			return nil, 0, fmt.Errorf("%q: %w", line, err)
		}
		fields := strings.Split(where, ":")
		clients = clients[strings.LastIndexByte(clients, ':')+1:]
		if len(fields) != lineFields {
			return nil, 0, fmt.Errorf("%q has not %d fields", line, lineFields)
		}
		s.observer = fields[3] == "observer"
		if s.peers, err = strconv.Atoi(fields[1]); err == nil {
			s.clients, err = strconv.Atoi(clients)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%q: %w", line, err)
		}
		s.peers, s.clients = s.peers-sim.PeerPort, s.clients-sim.ClientPort
		first := o.g.w.Servers[0]
		seats[number-first.Number+first.ID] = s
	}
	return seats, n, nil
}

// lineFields is how many fields a server line has: host, two ports, role.
const lineFields = 4
