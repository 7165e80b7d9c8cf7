package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"zkd/compat-tests/faults"
	"zkd/server/sim"
)

// The kinds of what an operator does to the versions of servers.
const (
	Upgrade Kind = "upgrade"        // a server of the version before is started again as one of the present one
	GoBack  Kind = "back to before" // the other way round, while another server is of the version before yet
)

// upgradeKinds are those of them.
var upgradeKinds = []Kind{Upgrade, GoBack}

// beforePercent is how many plans of a hundred begin with servers of the version before, backPercent how many upgrades
// of those are taken back.
const (
	beforePercent = 25
	backPercent   = 25
)

// drawBefore draws, from numbers of their own, whether all servers begin as the version before, and when each becomes
// one of the present one; those that do not meanwhile do when all is mended.
func (p *Plan) drawBefore() {
	r := drawer{rand.New(rand.NewPCG(p.Seed, 0x6265666f7265))} //nolint:gosec // a run must repeat
	if p.Before = r.chance(beforePercent) && !p.beforeMayStop(); !p.Before {
		return
	}
	// A server of the version before that was cut off may propose what a connection had sent behind its session's own
	// stale attempt to come back (server.TestNothingIsProposedBehindAReattach), and so apply it late: seed 11014008.
	p.Roles = slices.DeleteFunc(p.Roles, func(c faults.Cast) bool { return c.Role == faults.Pipelines })
	for i := range p.Participants + p.Observers {
		d := Deed{At: r.upTo(p.Length), What: Upgrade, Whom: i, Much: r.IntN(1000)}
		p.Deeds = append(p.Deeds, d)
		if r.chance(backPercent) {
			d.At, d.What = r.between(d.At, p.Length), GoBack
			p.Deeds = append(p.Deeds, d)
		}
	}
	slices.SortStableFunc(p.Deeds, func(a, b Deed) int { return int(a.At - b.At) })
}

// versions is what the operator of a play knows of the versions of servers.
type versions struct {
	looked time.Time // when he looked last who is refused, in the story up to the line read
	read   int
	late   []*sim.Server // that have gone back, or were removed: the feature level may be raised without them
}

// beforeMayStop tells whether servers of the version before may come to have no leader for good, as those of the
// present one do not (quorum.TestTheEmptiedOneOfTwoMayLead): one of two voters loses its disk.
func (p *Plan) beforeMayStop() bool {
	return p.Participants == 2 && slices.ContainsFunc(p.Deeds, func(d Deed) bool {
		return d.What == LoseDisk || d.What == RotDisk
	})
}

// beginBefore has all servers be of the version before, in a plan that says so.
func (g *play) beginBefore() {
	if !g.plan.Before {
		return
	}
	if !sim.HasBefore() {
		g.violated("this program has no version before")
		return
	}
	for _, s := range g.w.Servers {
		s.Install(true)
	}
}

// roll brings a server to another version, as an operator does; or it is killed before. None goes back once all may
// be of the present one: the feature level is raised then.
func (g *play) roll(d *Deed, i int) {
	s, back := g.w.Servers[i], d.What == GoBack
	switch {
	case !sim.HasBefore(), s.Older() == back:
		g.leftOut(d, "the server is of that version")
		return
	case back && (!g.olderMember() || g.raised(i)):
		g.leftOut(d, "the feature level is raised, or no other member is of the version before")
		return
	}
	if d.Much%2 == 0 {
		g.stopServer(i)
	}
	s.Kill()
	s.Install(back)
	if back {
		g.versions.late = append(g.versions.late, s)
	}
	s.Start()
}

// raised tells whether a server says that the feature level is what only the present version can do: one of the version
// before may be a member all the same, which was removed before, and has been added again.
func (g *play) raised(i int) bool {
	answer := g.ask(i, "mntr")
	level := figure(answer, "zk_zkd_feature_level")
	return level > 0 && level == figure(answer, "zk_zkd_feature_level_supported")
}

// tooOld is what a server says that has data of a feature level above its own, or what the version before says of
// sessions of such a level, which it reads first.
var tooOld = []string{"this zkd is too old", "damaged value in the state store: session"}

// upgradeLate brings a server to the present version that is of the version before too late, and reports whether this
// is one: another server was the last of that version when the operator asked this one to stop, and was upgraded, or
// removed, by the time it had; or this one was removed, and goes on while it is added again. So it has data of a
// feature level above what it can do. It says so in its log.
func (g *play) upgradeLate(i int) bool {
	s := g.w.Servers[i]
	if !s.Older() || !slices.Contains(g.versions.late, s) {
		return false
	}
	told := fmt.Sprintf(" s%d ", s.Number)
	for _, line := range slices.Backward(g.w.Story.Since(0)) {
		if !strings.Contains(line, told) || !strings.Contains(line, "-- ended: ") {
			continue
		}
		late := slices.ContainsFunc(tooOld, func(told string) bool { return strings.Contains(line, told) })
		if late {
			g.done[Upgrade]++
			s.Install(false)
			g.w.Story.Tell("", "-- s%d is too old, and is upgraded", s.Number)
		}
		return late
	}
	return false
}

// olderMember tells whether a member is of the version before.
func (g *play) olderMember() bool {
	for i, s := range g.w.Servers {
		if member, _ := g.belongs(i); member && s.Older() {
			return true
		}
	}
	return false
}

// refusedLevel is what the others tell a server of the version before that comes when the feature level was raised.
const refusedLevel = "the ensemble is at feature level"

// upgradeRefused brings servers to the present version that the others refuse, as their operator reads in their logs:
// one joins, or goes back, while the last member of the version before is upgraded, or removed.
func (g *play) upgradeRefused() {
	if !g.plan.Before || g.operator == nil || time.Since(g.versions.looked) < againAfter {
		return
	}
	lines := g.w.Story.Since(g.versions.read)
	g.versions.looked, g.versions.read = time.Now(), g.versions.read+len(lines)
	for _, s := range g.w.Servers {
		told := fmt.Sprintf(" s%d ", s.Number)
		if s.Up() && s.Older() && slices.ContainsFunc(lines, func(line string) bool {
			return strings.Contains(line, told) && strings.Contains(line, "the peer refused: \""+refusedLevel)
		}) {
			g.done[Upgrade]++
			s.Kill()
			s.Install(false)
			s.Start()
			g.w.Story.Tell("", "-- s%d was refused, and is upgraded", s.Number)
		}
	}
}

// upgrade brings all servers to the present version that are not, one after the other; one that is away, too.
func (g *play) upgrade() {
	for i, s := range g.w.Servers {
		if s.Older() && !g.failed() {
			g.done[Upgrade]++
			g.roll(&Deed{What: Upgrade, Whom: i}, i)
			g.awaitWrites()
		}
	}
}

// checkLevels sees to it that the feature level is raised when all servers are of the present version.
func (g *play) checkLevels() {
	if !g.plan.Before || g.failed() {
		return
	}
	for i, s := range g.w.Servers {
		if member, _ := g.belongs(i); !member {
			continue
		}
		var level, newest int64
		if !g.await(servesWithin, "the feature level is raised", func() bool {
			answer := g.ask(i, "mntr")
			level, newest = figure(answer, "zk_zkd_feature_level"), figure(answer, "zk_zkd_feature_level_supported")
			return level == newest && (level > 0 || !g.serves(i))
		}) {
			g.violated("server %d is at feature level %d of %d", s.ID, level, newest)
			return
		}
	}
}

// figure is a number that mntr answers; 0 if it does not.
func figure(answer, name string) int64 {
	_, rest, _ := strings.Cut(answer, name+"\t")
	text, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseInt(text, 10, 64) // else 0
	return n
}
