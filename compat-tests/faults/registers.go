package faults

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"zkd/jute"
)

// decideWithin and decideSteps bound the search for an order of the operations on one register; in a simulated run no
// time passes meanwhile. What it does not find by then is a violation: a shorter round is decided sooner. An order that
// is there is found in some steps for each operation.
const (
	decideWithin = 5 * time.Minute
	decideSteps  = 5_000_000
)

// first is what every register holds at version 0.
const first = "first"

// register is a znode as the model sees it.
type register struct {
	version jute.Version
	value   string
}

// model is one register with versions. An operation of unknown outcome may take effect at any time after its call, or
// at the end, where nobody sees it.
var model = porcupine.Model{
	Init: func() any { return register{0, first} },
	Step: func(state, input, _ any) (bool, any) {
		r, op := state.(register), input.(Op)
		next := register{r.version + 1, op.Value}
		switch {
		case op.Kind == SyncRead:
			return r == register{op.Version, op.Value}, r
		case op.Outcome == Refused:
			return r.version != op.Expected, r
		case op.Kind == Swap && r.version != op.Expected:
			return op.Outcome == Unknown, r
		case op.Outcome == Unknown:
			return true, next
		default:
			return op.Version == next.version, next
		}
	},
	DescribeOperation: func(input, _ any) string { return input.(Op).String() },
	DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state.(register)) },
}

// CheckRegisters holds the operations on registers against the model, with sync and read if reads is set. keep is
// given the picture of a register that has no order.
func CheckRegisters(ops []Op, reads bool, violated func(string, ...any), keep func(porcupine.LinearizationInfo)) {
	byPath := map[string][]Op{}
	for _, op := range ops {
		if op.writes() || op.Kind == SyncRead && reads && op.Outcome == Done {
			byPath[op.Path] = append(byPath[op.Path], op)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		settled, unseen := settle(byPath[path], ops)
		if len(unseen) > 0 {
			if result, _ := decide(eventsOf(guess(settled, unseen)), decideSteps); result == porcupine.Ok {
				continue
			}
		}
		if result, info := decide(eventsOf(settled), decideSteps); result != porcupine.Ok {
			violated("%s: %d operations have no order in which each could have had its outcome (%v)",
				path, len(settled), result)
			keep(info)
		}
	}
}

// eventsOf are operations as they are searched for an order.
func eventsOf(ops []Op) []porcupine.Operation {
	events := make([]porcupine.Operation, 0, len(ops))
	for _, op := range ops {
		events = append(events, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: op.Ret})
	}
	return events
}

// decide looks for an order of operations on a register, in so many steps of the model. Unknown is that it has found
// none by then.
func decide(events []porcupine.Operation, steps int64) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	bounded, left := model, steps
	bounded.Step = func(state, input, output any) (bool, any) {
		if left--; left < 0 { // whatever is tried next fails, and the search ends
			return false, state
		}
		return model.Step(state, input, output)
	}
	result, info := porcupine.CheckOperationsVerbose(bounded, events, decideWithin)
	if left < 0 && result != porcupine.Ok {
		result = porcupine.Unknown
	}
	return result, info
}

// settle takes the doubt out of operations whose outcome is not known, as far as others tell: values are written once,
// so one that was seen tells the version that the write has left; and one that was never seen has not happened if
// every version is accounted for. If some are not, so many have happened, and perhaps more behind the last version,
// which all come to the same: where a later one fits, an earlier one does. The search tries each in each place, else.
// unseen are the versions that nobody has seen, in ascending order.
func settle(ops, all []Op) (settled []Op, unseen []gap) {
	versions, top := map[string]jute.Version{}, jute.Version(0)
	seen := map[jute.Version]int64{0: 0} // when first
	for _, op := range all {
		isView := op.Outcome == Done && (op.writes() || op.Kind == Read || op.Kind == SyncRead)
		if !isView || op.Path != ops[0].Path {
			continue
		}
		versions[op.Value] = op.Version
		if at, ok := seen[op.Version]; !ok || op.Ret < at {
			seen[op.Version] = op.Ret
		}
		top = max(top, op.Version)
	}
	by := int64(math.MaxInt64)
	for v := top; v >= 0; v-- {
		if at, ok := seen[v]; ok {
			by = min(by, at)
		} else {
			unseen = append(unseen, gap{v, by})
		}
	}
	slices.Reverse(unseen)
	latest := latestUnseen(ops, versions, len(unseen)+1)
	settled = make([]Op, 0, len(ops))
	for _, op := range ops {
		if op.Outcome == Unknown {
			version, found := versions[op.Value]
			_, taken := seen[op.Expected+1]
			switch {
			case found:
				op.Outcome, op.Version = Done, version
			case len(unseen) == 0, op.Kind == Write && op.Call > latest, op.Kind == Swap && taken:
				continue
			}
		}
		settled = append(settled, op)
	}
	return settled, unseen
}

// gap is a version that nobody has seen. By then a later one was.
type gap struct {
	version jute.Version
	by      int64
}

// guess accounts for the versions that nobody has seen, which are in ascending order: each is what the first swap has
// left that could have, as that fits nowhere else, or else the first write. Of the others of unknown outcome those are
// left that can be behind the last version that was seen. What it returns is one way in which it may have been, and
// mostly has an order if there is any. With many versions unseen a search that tries all ways does not end.
func guess(settled []Op, unseen []gap) []Op {
	ops := slices.Clone(settled)
	slices.SortStableFunc(ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	firstOf := func(by int64, kind Kind, expected jute.Version) int {
		return slices.IndexFunc(ops, func(op Op) bool {
			fits := kind == Write || op.Expected == expected
			return fits && op.Outcome == Unknown && op.Kind == kind && op.Call < by
		})
	}
	for _, g := range unseen {
		n := firstOf(g.by, Swap, g.version-1)
		if n < 0 {
			n = firstOf(g.by, Write, 0)
		}
		if n >= 0 {
			ops[n].Outcome, ops[n].Version = Done, g.version
		}
	}
	behind := firstOf(math.MaxInt64, Write, 0)
	var kept []Op
	for n, op := range ops {
		isGap := func(g gap) bool { return g.version == op.Expected+1 }
		if op.Outcome != Unknown || n == behind || op.Kind == Swap && !slices.ContainsFunc(unseen, isGap) {
			kept = append(kept, op)
		}
	}
	return kept
}

// latestUnseen is when the last one of the first writes was called, so many of them, that nobody has seen.
func latestUnseen(ops []Op, versions map[string]jute.Version, many int) int64 {
	var calls []int64
	for _, op := range ops {
		if _, found := versions[op.Value]; op.Outcome == Unknown && op.Kind == Write && !found {
			calls = append(calls, op.Call)
		}
	}
	if len(calls) <= many {
		return math.MaxInt64
	}
	slices.Sort(calls)
	return calls[many-1]
}

// CheckVersions sees to it that each version of a register is one value and one zxid, whoever looks, wherever, and
// that later versions have later zxids.
func CheckVersions(ops []Op, violated func(string, ...any)) {
	type key struct {
		path    string
		version jute.Version
	}
	views := map[key]Op{}
	for _, op := range ops {
		if op.Outcome != Done || op.Kind > Read {
			continue
		}
		k := key{op.Path, op.Version}
		if other, ok := views[k]; ok && (other.Value != op.Value || other.Mzxid != op.Mzxid) {
			violated("two contents of one version: %v, and %v", other, op)
		}
		views[k] = op
	}
	keys := slices.SortedFunc(maps.Keys(views), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
	})
	for i := 1; i < len(keys); i++ {
		a, b := views[keys[i-1]], views[keys[i]]
		if a.Path == b.Path && a.Mzxid >= b.Mzxid {
			violated("a later version has an earlier zxid: %v, then %v", a, b)
		}
	}
}

// CheckZxids sees to it that writes have zxids of their own, and that a write which began after another was
// acknowledged has the later one: all writes are in one order, and it agrees with time.
func CheckZxids(ops []Op, violated func(string, ...any)) {
	var writes []Op
	for _, op := range ops {
		if op.Outcome == Done && op.Zxid != 0 && op.Kind != Read && op.Kind != SyncRead {
			writes = append(writes, op)
		}
	}
	byRet := slices.Clone(writes)
	slices.SortFunc(writes, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortFunc(byRet, func(a, b Op) int { return cmp.Compare(a.Ret, b.Ret) })
	seen := map[jute.Zxid]Op{}
	var latest Op // of those acknowledged before the current one began, the one with the highest zxid
	done := 0
	for _, op := range writes {
		for ; done < len(byRet) && byRet[done].Ret < op.Call; done++ {
			if byRet[done].Zxid > latest.Zxid {
				latest = byRet[done]
			}
		}
		if op.Zxid <= latest.Zxid {
			violated("zxid %#x of %v is not after %#x of %v, which was acknowledged before",
				op.Zxid, op, latest.Zxid, latest)
		}
		if other, ok := seen[op.Zxid]; ok {
			violated("two writes have zxid %#x: %v, and %v", op.Zxid, other, op)
		}
		seen[op.Zxid] = op
	}
}

// CheckSessions sees to it that what a session reads of a register never goes back, its own writes included. The
// operations of a session are in the order in which it sent them.
func CheckSessions(ops []Op, violated func(string, ...any)) {
	type key struct {
		session jute.SessionID
		path    string
	}
	last := map[key]Op{}
	for _, op := range ops {
		if op.Outcome != Done || op.Kind > Read || op.Session == 0 {
			continue
		}
		k := key{op.Session, op.Path}
		if before, ok := last[k]; ok && op.Mzxid < before.Mzxid {
			violated("session %#x went back: %v, then %v", op.Session, before, op)
		}
		last[k] = op
	}
}

// CheckNames sees to it that names of sequential znodes are unique and in the order of their zxids.
func CheckNames(ops []Op, violated func(string, ...any)) {
	var given []Op
	for _, op := range ops {
		if op.Kind == Sequential && op.Outcome == Done {
			given = append(given, op)
		}
	}
	slices.SortFunc(given, func(a, b Op) int { return cmp.Compare(a.Value, b.Value) })
	for i := 1; i < len(given); i++ {
		a, b := given[i-1], given[i]
		if a.Value == b.Value {
			violated("two sequential znodes have one name: %v, and %v", a, b)
		} else if a.Zxid != 0 && b.Zxid != 0 && a.Zxid > b.Zxid {
			violated("a later name has an earlier zxid: %#x %v, then %#x %v", a.Zxid, a, b.Zxid, b)
		}
	}
}
