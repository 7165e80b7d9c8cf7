package simulation

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
)

// Knob is a limit in the sources that a plan may set, as FoundationDB's BUGGIFY does: a constant there, and a variable
// in the program that plays plans. So the sources have no hooks, and a run meets what happens at a bound that is seldom
// reached.
type Knob struct {
	File string // below the module's root, where the constant is
	Name string // of the constant
	Type string // of the variable
	// Values are what is drawn: zkd keeps all of its promises with each of them, whatever the other knobs are. Times
	// are in nanoseconds. None: the constant is computed from others, which are knobs.
	Values []int64
}

// Key is what a plan calls it: its package and its name.
func (k *Knob) Key() string { return path.Dir(k.File) + "." + k.Name }

// knobVariable says how the knobs of a process are set, as key=value with commas between them.
const knobVariable = "ZKD_SIM_KNOBS"

// knobSource is what is added to each package that has a knob. Its variables are set before main begins, in the order
// that package-level variables need, so that those that are computed from others follow them.
const knobSource = `package %s

import (
	"os"
	"strconv"
	"strings"
)

func knob(key string, otherwise int64) int64 {
	for pair := range strings.SplitSeq(os.Getenv("` + knobVariable + `"), ",") {
		if text, ok := strings.CutPrefix(pair, key+"="); ok {
			if value, err := strconv.ParseInt(text, 10, 64); err == nil {
				return value
			}
			panic("knob " + pair)
		}
	}
	return otherwise
}
`

// How many plans of a hundred have knobs, and how many of the knobs those have.
const (
	knobbedPercent = 40
	knobPercent    = 15
)

// drawKnobs draws the knobs of a plan, each from numbers of its own: a new one leaves the rest of each plan as it is.
func drawKnobs(p *Plan) map[string]int64 {
	seed := p.Seed
	r := drawer{rand.New(rand.NewPCG(seed, 0x6b6e6f62))} //nolint:gosec // a run must repeat
	if !r.chance(knobbedPercent) {
		return nil
	}
	drawn := map[string]int64{}
	all := knobs()
	for i := range all {
		k := &all[i]
		h := fnv.New64a()
		_, _ = h.Write([]byte(k.Key()))                     // it does not fail
		r := drawer{rand.New(rand.NewPCG(seed, h.Sum64()))} //nolint:gosec // a run must repeat
		if len(k.Values) > 0 && r.chance(knobPercent) {
			drawn[k.Key()] = one(r, k.Values...)
		}
	}
	for _, u := range unsuited {
		if u.with(p) {
			maps.DeleteFunc(drawn, func(key string, _ int64) bool { return slices.Contains(u.knobs, key) })
		}
	}
	return drawn
}

// flushKnobs say how soon the state is flushed. The log keeps what is not.
var flushKnobs = []string{
	"storage/state.defaultFlushBytes", "storage/state.defaultFlushReplay", "quorum.defaultFlushInterval",
}

// unsuited are knobs with which zkd cannot keep its promises in some plans.
var unsuited = []struct {
	with  func(p *Plan) bool
	knobs []string
}{
	{ // A log forgets early what a member needs that is behind. With a bound of the rate at which that one is sent a
		// snapshot, writes go on faster than that, and it never catches up: an operator sets both.
		with:  func(p *Plan) bool { return p.setting("zkd.snapshotRate", 0) > 0 },
		knobs: append([]string{"quorum.retainLeast", "quorum.retainMost", "quorum.retainUnknown"}, flushKnobs...),
	},
	{ // A log keeps ten entries, for an operator has set that, and none for what is not flushed yet, for all is at
		// once. In the time that it takes to install a snapshot many clients write more (seed 11791907).
		with:  func(p *Plan) bool { return p.setting(retainBytes, 0) == leastRetained },
		knobs: flushKnobs,
	},
	{ // Servers propose one write, send one or two entries, or forward one batch, or batches of one or two writes, in
		// the time that lines which stay slow take there and back, once or twice. Each client waits for the writes of
		// all others then, for longer than the shortest timeouts of sessions (seeds 11114385, 11710520, 12281778).
		with: func(p *Plan) bool { return p.Stays != nil && p.Stays.What == SlowLines },
		knobs: []string{
			"quorum.defaultMaxOutstandingBytes", "quorum.maxInflightMessages", "quorum.forwardWindow",
			"quorum.defaultMaxEntryBytes",
		},
	},
	{ // A log keeps nothing in memory. Each entry is read to be applied, and to be sent, and each time the blocks of
		// large values with it: more than a run has (seed 11073698).
		with:  (*Plan).large,
		knobs: []string{"storage/raftlog.logTailBytesDefault"},
	},
}

// knobsText is what a process is told of its knobs.
func knobsText(set map[string]int64) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(set)) {
		pairs = append(pairs, fmt.Sprintf("%s=%d", key, set[key]))
	}
	return strings.Join(pairs, ",")
}
