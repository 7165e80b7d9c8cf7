package simulation

import "slices"

// Plant is a bug that a run is to have, to see it found. It is no part of the sources: the program that plays plans
// with plants is built from patched copies of them, and one run has one plant at most.
type Plant struct {
	Name  string // as patches ask for it
	Bug   string // what the program does
	Whose string // where it was, or would be, a bug: a decision, an issue of ZooKeeper's, or "" if nowhere
	// Found of Of seeds have found it, when that was counted last: ZKD_SIM_SEEDS has it counted.
	Found, Of uint64
	Patches   []Patch
	// Knobs are those without which it takes long to show; the plans that look for it have no others.
	Knobs map[string]int64
	// Before says that it shows beside servers of the version before; the plans that look for others have none.
	Before bool
}

// What a plant has to be found within.
const (
	// soonSeeds is how many seeds it takes on average, at the most, to find a plant that CI looks for.
	soonSeeds = 8
	// missChance is the chance, for each of those, that none of the seeds finds it which have to, though it shows as
	// often as it did when it was counted. For all of them together it is below one in a thousand. missChanceSeldom is
	// that for each of the others, of which few finds are known: they are looked for by hand.
	missChance       = 1.0 / 50_000
	missChanceSeldom = 1.0 / 1000
	// withinLeast is how many seeds have to find a plant that nearly each one has found: how often it shows changes a
	// little with the code, and seeds behind the one that finds it are not played.
	withinLeast = 12
)

// seldom tells whether CI does not look for the plant.
func (p *Plant) seldom() bool { return p.Of > soonSeeds*p.Found }

// within is how many seeds have to find the plant, 1 being the first. Each change of the code moves what a seed plays,
// so which of them finds it is chance, and how often one does is known from a sample: that none of n others finds it
// has the chance ∏ (Of-Found+i)/(Of+1+i) for i from 1 to n, if any frequency was as likely before as any other.
func (p *Plant) within() uint64 {
	chance, most := 1.0, missChance
	if p.seldom() {
		most = missChanceSeldom
	}
	for n := uint64(1); ; n++ {
		chance *= float64(p.Of-p.Found+n) / float64(p.Of+1+n)
		if chance <= most && n >= withinLeast {
			return n
		}
	}
}

// Patch is one place that reads otherwise. Old is there exactly once. New may ask planted(name), or plantedEach(name,
// n), which is true each nth time that it is asked by any server.
type Patch struct {
	File     string // below the module's root
	Old, New string
}

// plants are all of them.
//
// Not found by 120 seeds, and so not among them:
//   - A vote that is given before it is on disk: the voter has to lose its power within the milliseconds until the new
//     leader's first entry, while the two that ask for votes in that term do not hear each other.
//   - A leader that answers sync without asking whether it still leads (ZOOKEEPER-1675): it notices within an election
//     timeout, and the others have hardly elected and written by then.
//   - An install without its mark: the crash has to come between two syncs of one member.
//   - A leader that goes on refusing writes after it has failed to hand over; clients that stay while a snapshot
//     replaces the state: members that fall behind have lost their clients before.
//   - A close of a session that is acknowledged too early, an ephemeral that is created after it: few sessions are
//     closed, and nobody creates behind a close (ZOOKEEPER-1208).
//   - A read from the disk that is taken though the znode has changed: the cache holds the whole state.
//
// Nor, by 60 seeds with an operator in a third of them: a removed server that goes on serving beyond its grace, as it
// has no leader after a while; a participant that has its vote before it has caught up, as it acknowledges only what it
// has; a port that is opened at the next start only (decision 23), as the others still dial the former one; files that
// do not follow the membership, and a snapshot after which nobody looks who is a member: the state says it at the next
// start; a server that goes where a reconfig has it that is only proposed, since few of those are not taken; one that
// was removed, comes back empty and is taken for the one that it was, since its log tells.
//
// What is yet to be planted, as there was no deed or client for it once: a reserve that is not given back (25) when
// disks fill up; the clean-up of containers that ends early; reads that overtake writes, with clients that do not wait
// for each answer. A leader that takes what a follower forwards though some before it is missing (10) is not found by
// 19 seeds: nothing is lost while a connection stays. That a checkpoint is sent again and again without a pause (20)
// harms nobody here: nothing is said about how much is sent. The zxid of ZooKeeper that overflows (ZOOKEEPER-1277) has
// nothing like it: zkd's is one number of 64 bits.
func plants() []Plant {
	return slices.Concat(plantsOfDisks(), plantsOfOlderDisks(), plantsOfTheLog(), plantsOfMembers(),
		plantsOfReconfigs(), plantsOfVersions(), plantsOfTheState(), plantsOfSessions(), plantsOfClients())
}

// plantVariable says which plant a process has.
const plantVariable = "ZKD_SIM_PLANT"

// plantedSource is what is added to each patched package.
const plantedSource = `package %s

import (
	"os"
	"sync/atomic"
	"time"
)

var (
	plant      = os.Getenv("` + plantVariable + `")
	plantTurns atomic.Int64
)

func planted(name string) bool { return plant == name }

func plantedEach(name string, n int64) bool { return plant == name && plantTurns.Add(1)%%n == 0 }

func plantedMillis() int64 { return time.Now().UnixMilli() }

func plantedLater(after time.Duration, do func()) { go func() { time.Sleep(after); do() }() }
`
