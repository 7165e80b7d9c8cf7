package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"zkd/jute/client"
	"zkd/server/sim"
)

// Directories of a server's data, as docs/operations.md has them.
const (
	logDir         = "raftlog"
	stateDir       = "state"
	checkpointsDir = "state.checkpoints"
	stagedDir      = "state.staged"
)

// sampleEvery is how often it is looked what there is, while a fault stays.
const sampleEvery = 2 * time.Second

// What costs is what clients ask for, and time alone costs nothing: so while it is looked at what grows, they are at
// their pace for one sample of calmFor. In between each does as much as its session needs, or one step in calmPace.
const (
	calmFor   = 8
	calmPace  = 2 * time.Second
	calmShows = 3 // times in its timeout
)

// What is allowed beside what the settings and knobs of a plan say.
const (
	valueBytes     = 1 << 20          // of one request: jute.maxbuffer
	marginBytes    = 64 << 10         // what is counted in steps, or with its overhead
	appliesWithin  = 10 * time.Second // an entry that is committed is applied
	marginOf       = 16               // connections and names of files that come and go
	marginRoutines = 128              // goroutines likewise
)

// Defaults of zkd that a plan has other values for.
const (
	outstandingDefault = 1000            // globalOutstandingLimit
	batchPartDefault   = 8               // server/limits.batchPart
	proposedDefault    = 32 << 20        // quorum.defaultMaxOutstandingBytes
	flushDefault       = int64(30e9)     // quorum.defaultFlushInterval
	compactorDefault   = int64(1e9)      // quorum.compactorInterval
	memTableDefault    = 8 << 20         // storage/raftlog.logMemTableBytesDefault
	compactorLate      = 5 * time.Second // what a flush takes, and who waits for it
)

// drawLinger draws how long it is looked at what grows while a fault stays, from numbers of its own.
func drawLinger(seed uint64) time.Duration {
	r := drawer{rand.New(rand.NewPCG(seed, 0x6c696e67))} //nolint:gosec // a run must repeat
	if !r.chance(lingerPercent) {
		return 0
	}
	return r.between(15*time.Second, 90*time.Second)
}

// lingerPercent is how many plans of a hundred look at what grows while a fault stays.
const lingerPercent = 35

// knob is the value of a knob in this run.
func (p *Plan) knob(key string, otherwise int64) int64 {
	if v, ok := p.Knobs[key]; ok {
		return v
	}
	return otherwise
}

// setting is the value of a key of zoo.cfg in this run.
func (p *Plan) setting(key string, otherwise int64) int64 {
	for _, line := range p.Settings {
		if text, ok := strings.CutPrefix(line, key+"="); ok {
			if v, err := strconv.ParseInt(text, 10, 64); err == nil {
				return v
			}
		}
	}
	return otherwise
}

// durableWithin is how long, about, an applied entry may be what a crash takes back: flushes are begun by time, and one
// may just have begun before it.
func (p *Plan) durableWithin() time.Duration {
	return time.Duration(2*p.knob("quorum.defaultFlushInterval", flushDefault)+
		3*p.knob("quorum.compactorInterval", compactorDefault)) + compactorLate
}

// sample is what there is of one server at a moment.
type sample struct {
	at                        time.Time
	life                      int              // which of its lives
	figures                   map[string]int64 // of mntr; nil: it does not answer
	log, checkpoints, staged  sim.Usage
	state, connections, tasks int64 // tasks are goroutines of all
}

// watch is what was seen of each server while a fault stays.
type watch struct {
	g       *play
	victim  int // whose disk and lines may be what they are; -1: nobody
	samples [][]sample
}

// linger watches for a while that nothing grows beyond its bounds.
func (g *play) linger(victim int, lasting time.Duration) {
	if lasting == 0 {
		return
	}
	w := &watch{g: g, victim: victim, samples: make([][]sample, len(g.w.Servers))}
	for n, end := 0, time.Now().Add(lasting); time.Now().Before(end) && !g.failed(); n++ {
		g.calm.Store(n%calmFor != 0)
		w.look()
		g.sleepUntil(time.Now().Add(sampleEvery))
	}
	g.calm.Store(false)
	w.growth()
	g.watched++
}

// rested looks at what there is in the end: what is bounded is within its bounds, and what was made for members that
// were behind is gone if there was the time for it.
func (g *play) rested() {
	w := &watch{g: g, victim: -1, samples: make([][]sample, len(g.w.Servers))}
	w.look()
	for _, s := range g.w.Servers {
		if n := s.Usage(checkpointsDir).Entries; s.Up() && g.plan.Rest > 0 && n > 0 { // the next start removes them
			g.violated("server %d has kept %d checkpoints, which nobody has needed for %v", s.ID, n, g.plan.Rest)
		}
	}
}

// look takes a sample of each server that runs, and compares it with its bounds.
func (w *watch) look() {
	for i, s := range w.g.w.Servers {
		if !s.Up() {
			continue
		}
		now := sample{at: time.Now(), life: s.Lives(), figures: w.g.figures(i), log: s.Usage(logDir),
			checkpoints: s.Usage(checkpointsDir), staged: s.Usage(stagedDir), state: s.Usage(stateDir).Bytes,
			connections: int64(w.g.w.Network.Open(s.Host())), tasks: int64(runtime.NumGoroutine())}
		w.samples[i] = append(w.samples[i], now)
		if why := w.beyond(i, &now); why != "" {
			w.g.violated("server %d, while %s: %s", s.ID, w.what(), why)
		}
	}
}

// what names the fault.
func (w *watch) what() string {
	if w.victim < 0 {
		return "nothing is wrong"
	}
	return fmt.Sprintf("%s stays on server %d", w.g.plan.Stays.What, w.victim+1)
}

// beyond says which bound is exceeded, "" if none is.
func (w *watch) beyond(i int, s *sample) string {
	if why := w.kept(i, s); why != "" {
		return why
	}
	bounds := []struct {
		what     string
		is, most int64
	}{
		// One for each member that takes one, and the newest.
		{"checkpoints", int64(s.checkpoints.Entries), int64(len(w.g.w.Servers)) + 1},
		{"bytes of a state that is received", s.staged.Bytes, 2*w.largestState() + valueBytes},
	}
	if f := s.figures; f != nil {
		limit := w.g.plan.setting("globalOutstandingLimit", outstandingDefault)
		batch := max(1, limit/w.g.plan.knob("server/limits.batchPart", batchPartDefault))
		connections := f["zk_num_alive_connections"]
		bounds = append(bounds, struct {
			what     string
			is, most int64
		}{"requests in flight", f["zk_outstanding_requests"], limit + connections*(batch+1)}, struct {
			what     string
			is, most int64
		}{"bytes proposed and not answered", f["zk_zkd_outstanding_proposal_bytes"],
			w.g.plan.knob("quorum.defaultMaxOutstandingBytes", proposedDefault) + valueBytes})
	}
	for _, b := range bounds {
		if b.is > b.most {
			return fmt.Sprintf("%d %s, at most %d are to be", b.is, b.what, b.most)
		}
	}
	return ""
}

// kept says whether the log keeps more than it may: what is bounded by settings, and what was appended since it could
// last be flushed. What is committed is applied, and what is applied becomes durable, each within a time.
func (w *watch) kept(i int, s *sample) string {
	if s.figures == nil || i == w.victim {
		return ""
	}
	if was := w.before(i, s, appliesWithin); was != nil &&
		s.figures["zk_zkd_applied_index"] < was.figures["zk_zkd_commit_index"] {
		return fmt.Sprintf("applied is entry %d, and %d was committed %v before", s.figures["zk_zkd_applied_index"],
			was.figures["zk_zkd_commit_index"], appliesWithin)
	}
	within := w.g.plan.durableWithin()
	was := w.before(i, s, within)
	if was == nil {
		return ""
	}
	if s.figures["zk_zkd_durable_index"] < was.figures["zk_zkd_applied_index"] {
		return fmt.Sprintf("durable is entry %d, and %d was applied %v before", s.figures["zk_zkd_durable_index"],
			was.figures["zk_zkd_applied_index"], within)
	}
	lately := s.figures["zk_zkd_log_bytes_total"] - was.figures["zk_zkd_log_bytes_total"]
	most := 2*s.figures["zk_zkd_log_kept_max_bytes"] + lately + marginBytes
	if kept := s.figures["zk_zkd_log_kept_bytes"]; kept > most {
		return fmt.Sprintf("the log keeps %d bytes, at most %d are to be, %d of them since %v", kept, most, lately,
			within)
	}
	// Beside entries these are the write-ahead logs in use, those to be written over, and those made ahead. One is
	// longer than it is to be by the entry that has filled it.
	longest := w.g.plan.knob("storage/raftlog.logMemTableBytesDefault", memTableDefault)
	for _, c := range w.g.plan.Roles {
		longest += int64(c.Values.Longest)
	}
	most = 4*most + 8*longest
	if s.log.Bytes > most {
		return fmt.Sprintf("the log takes %d bytes on disk, at most %d are to be", s.log.Bytes, most)
	}
	return ""
}

// before returns the last sample of the same life of a server that is older by a time; nil if there is none.
func (w *watch) before(i int, s *sample, by time.Duration) *sample {
	for j := len(w.samples[i]) - 1; j >= 0; j-- {
		was := &w.samples[i][j]
		if was.life != s.life {
			return nil
		}
		if was.figures != nil && s.at.Sub(was.at) >= by {
			return was
		}
	}
	return nil
}

// largestState is how much the largest state of all takes on its disk, so far.
func (w *watch) largestState() (most int64) {
	for _, list := range w.samples {
		for i := range list {
			most = max(most, list[i].state)
		}
	}
	return most
}

// growth compares the last third of all samples with the first.
func (w *watch) growth() {
	for i, list := range w.samples {
		third := len(list) / 3
		if third < 3 || i == w.victim && w.g.plan.Stays.What == Pause { // nobody closes what others open
			continue
		}
		for _, f := range []struct {
			what   string
			margin int64
			of     func(*sample) int64
		}{
			{"goroutines, of all servers and clients", marginRoutines, func(s *sample) int64 { return s.tasks }},
			{"connections", marginOf, func(s *sample) int64 { return s.connections }},
			{"files of the log", marginOf, func(s *sample) int64 { return int64(s.log.Entries) }},
		} {
			most := func(part []sample) (most int64) {
				for j := range part {
					most = max(most, f.of(&part[j]))
				}
				return most
			}
			first, last := most(list[:third]), most(list[len(list)-third:])
			if last > first+first/4+f.margin {
				w.g.violated("server %d, while %s: %s grow: %d, and %d after %v", i+1, w.what(), f.what, first, last,
					list[len(list)-1].at.Sub(list[0].at))
			}
		}
	}
}

// figures are those of a server's mntr; nil if it does not answer, or says only that it does not serve.
func (g *play) figures(i int) map[string]int64 {
	answer := g.ask(i, "mntr")
	if answer == "" {
		return nil
	}
	found := map[string]int64{}
	for line := range strings.Lines(answer) {
		if fields := strings.Fields(line); len(fields) == 2 {
			if v, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				found[fields[0]] = v
			}
		}
	}
	if _, ok := found["zk_zkd_applied_index"]; !ok {
		return nil
	}
	return found
}

// ask asks a server with a four-letter word, in one of its places; "" if it does not answer.
func (g *play) ask(i int, word string) (answer string) {
	for _, addr := range g.w.Servers[i].Addrs() {
		if answer = g.askAt(addr, word); answer != "" {
			break
		}
	}
	return answer
}

// askAt is likewise, for one place.
func (g *play) askAt(addr, word string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	answer, err := client.Ask(ctx, func(ctx context.Context, _, addr string) (net.Conn, error) {
		return g.machine.Dial(ctx, addr, false)
	}, addr, word)
	if err != nil {
		return ""
	}
	return answer
}

// absent is the server that is not there from the start on until all is mended; -1 if all are.
func (p *Plan) absent() int {
	if p.Stays != nil && p.Stays.What == Absent {
		return p.Stays.Whom
	}
	return -1
}

// drawAbsent draws, for a plan with which no fault stays, whether one server is absent from the start on.
func drawAbsent(p *Plan) *Deed {
	r := drawer{rand.New(rand.NewPCG(p.Seed, 0x61627365))} //nolint:gosec // a run must repeat
	if p.Stays != nil || p.Participants < 3 || !r.chance(absentPercent) ||
		slices.Contains(p.Settings, idleLeader) {
		return p.Stays
	}
	whom := r.IntN(p.Participants)
	if late := p.late(); late >= 0 && late < p.Participants {
		whom = late // with another one there would be no majority before it has come
	}
	return &Deed{At: p.Length, What: Absent, Whom: whom}
}

// late is the server that starts for the first time when the clients have begun; -1 if none does.
func (p *Plan) late() int {
	return slices.IndexFunc(p.Starts, func(at time.Duration) bool { return at >= startMost })
}

// absentPercent is how many of a hundred plans without a fault that stays have a server that is absent.
const absentPercent = 25
