package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// State is what a server, or the ensemble, is about when a deed meets it, as far as it can be told from outside: from
// what befell it, what it has logged, and the names on its disk.
type State string

// States of a server.
const (
	Leads      State = "leads"
	Follows    State = "follows"
	Observes   State = "observes"
	Leaderless State = "leaderless" // it knows no leader, and has known one
	Starts     State = "starts"     // it runs, and has known no leader yet
	Down       State = "down"
	Emptied    State = "emptied" // has no data, and waits to be admitted
	HandsOver  State = "hands over"
	Sends      State = "sends"    // a snapshot
	Receives   State = "receives" // likewise
	Staged     State = "staged"   // has a state on its disk that is received, or takes the place of its own
	Checkpoint State = "checkpoint"
	Flushing   State = "flushing" // a table is being written
	IllDisk    State = "ill disk" // which fails, hangs or is slow
	FullDisk   State = "full disk"
	Paused     State = "paused"
	Reconfigs  State = "reconfigs" // a change of membership is under way
)

// States of the ensemble.
const (
	NoneLeads   State = "none leads"
	OtherDown   State = "other down"
	OtherIll    State = "other ill" // in its disk, as above, or full or paused
	SnapshotOut State = "snapshot"  // is sent by somebody
)

// states are all of them, as the table has them.
var states = []State{Leads, Follows, Observes, Leaderless, Starts, Down, Emptied, HandsOver, Sends, Receives, Staged,
	Checkpoint, Flushing, IllDisk, FullDisk, Paused, Reconfigs, NoneLeads, OtherDown, OtherIll, SnapshotOut}

// sign is a line of a story that tells of a change of a server's state.
type sign struct {
	text   string // what the line begins with, behind time, server and level
	begins State  // "": none
	ends   []State
}

// signs are all of them, but for those that say more than that.
var signs = []sign{
	{"-- crash", Down, []State{Starts, Leads, Follows, Observes, Leaderless, Emptied, HandsOver, Paused, Reconfigs}},
	{"-- start", Starts, []State{Down}},
	{"-- is absent", Down, nil},
	{"-- is paused", Paused, nil},
	{"-- goes on", "", []State{Paused}},
	{"-- disk fails", IllDisk, nil},
	{"-- disk hangs", IllDisk, nil},
	{"-- disk is slow", IllDisk, nil},
	{"-- disk is mended", "", []State{IllDisk}},
	{"-- disk is filled", FullDisk, nil},
	{"-- disk has room", "", []State{FullDisk}},
	{"member quarantined", Emptied, nil},
	{"member admitted", "", []State{Emptied}},
	{"transferring leadership", HandsOver, nil},
	{"leadership transfer failed", "", []State{HandsOver}},
	{"proposing a reconfig", Reconfigs, nil},
	{"reconfig rejected", "", []State{Reconfigs}},
	{"membership changed", "", []State{Reconfigs}},
}

// moment is what there is now, as a story tells it.
type moment struct {
	read  int // lines
	of    map[string]map[State]bool
	sends map[string]map[string]bool // by who sends a snapshot, who gets it
}

// newMoment returns one at the beginning of a story.
func newMoment() *moment {
	return &moment{of: map[string]map[State]bool{}, sends: map[string]map[string]bool{}}
}

// follow reads on.
func (m *moment) follow(lines []string) {
	m.read += len(lines)
	for _, line := range lines {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ") // the time
		who, rest, _ := strings.Cut(rest, " ")
		rest = strings.TrimSpace(rest)
		if !strings.HasPrefix(who, "s") {
			continue
		}
		if !strings.HasPrefix(rest, "--") {
			_, rest, _ = strings.Cut(rest, " ") // the level
		}
		m.line(who, rest)
	}
}

// line reads what is told of a server.
func (m *moment) line(who, text string) {
	if m.of[who] == nil {
		m.of[who], m.sends[who] = map[State]bool{}, map[string]bool{}
	}
	for i := range signs {
		if s := &signs[i]; strings.HasPrefix(text, s.text) {
			for _, state := range s.ends {
				delete(m.of[who], state)
			}
			if s.begins != "" {
				m.of[who][s.begins] = true
			}
		}
	}
	switch {
	case strings.HasPrefix(text, "-- crash"):
		clear(m.sends[who])
	case strings.HasPrefix(text, "raft role changed"):
		m.role(who, text)
	case strings.HasPrefix(text, "sending a snapshot"):
		m.sends[who]["s"+attribute(text, "peer")] = true
	case strings.HasPrefix(text, "snapshot delivered"), strings.HasPrefix(text, "snapshot transfer abandoned"),
		strings.HasPrefix(text, "snapshot transfer failed"):
		delete(m.sends[who], "s"+attribute(text, "peer"))
	}
}

// role reads of another role.
func (m *moment) role(who, text string) {
	of := m.of[who]
	for _, state := range []State{Starts, Leads, Follows, Observes, Leaderless, HandsOver} {
		if state != Starts || attribute(text, "leader") != "none" {
			delete(of, state)
		}
	}
	switch role := attribute(text, "role"); {
	case attribute(text, "leader") == "none":
		of[Leaderless] = !of[Starts]
	case role == "leader":
		of[Leads] = true
	case role == "learner", role == "observer":
		of[Observes] = true
	default:
		of[Follows] = true
	}
}

// attribute is the value of a key in a line of a log, "" if there is none.
func attribute(text, key string) string {
	_, rest, _ := strings.Cut(text, " "+key+"=")
	value, _, _ := strings.Cut(rest, " ")
	return value
}

// states returns what is true of a server and of the ensemble.
func (m *moment) states(who string) map[State]bool {
	found := map[State]bool{NoneLeads: true}
	for other, of := range m.of { // order: a set comes of it
		for state, is := range of { // order: likewise
			if is && other == who {
				found[state] = true
			}
		}
		if of[Leads] {
			delete(found, NoneLeads)
		}
		ill := of[IllDisk] || of[FullDisk] || of[Paused]
		if other != who && (of[Down] || ill) {
			found[OtherDown], found[OtherIll] = found[OtherDown] || of[Down], found[OtherIll] || ill
		}
		if len(m.sends[other]) > 0 {
			found[SnapshotOut] = true
		}
		if m.sends[other][who] {
			found[Receives] = true
		}
	}
	if len(m.sends[who]) > 0 {
		found[Sends] = true
	}
	maps.DeleteFunc(found, func(_ State, is bool) bool { return !is })
	return found
}

// Met is how often each kind of deed has met each state.
type Met map[Kind]map[State]int

// mustMeet is what 200 seeds have to come to: each of these has met each of those states ten times and more in half as
// many (2026-11).
var mustMeet = []struct {
	kinds  []Kind
	states []State
}{
	{[]Kind{Kill, Power, Stop, PowerAll, Storm}, []State{Leads, Follows}},
	{[]Kind{Isolate, CutLine, SlowLines, Reset, Pause, HangDisk, SlowDisk, FillDisk, LoseDisk}, []State{Leads}},
	{[]Kind{Kill, Isolate, CutLine, Pause, Power, Stop, SlowDisk, HangDisk}, []State{NoneLeads, OtherDown, OtherIll}},
	{[]Kind{Kill, LoseDisk}, []State{Starts, OtherDown}},
	{[]Kind{Kill, PowerAll, Isolate, CutLine}, []State{Leaderless, Down}},
	{[]Kind{SlowDisk, Kill, Isolate}, []State{IllDisk}},
}

// unmet returns what must be met, and was not.
func (m Met) unmet() (missing []string) {
	for _, must := range mustMeet {
		for _, kind := range must.kinds {
			for _, state := range must.states {
				if m[kind][state] == 0 {
					missing = append(missing, fmt.Sprintf("%s: %s", kind, state))
				}
			}
		}
	}
	return missing
}

// add adds what others have met.
func (m Met) add(other Met) {
	for kind, of := range other { // order: a sum
		if m[kind] == nil {
			m[kind] = map[State]int{}
		}
		for state, n := range of { // order: a sum
			m[kind][state] += n
		}
	}
}

// String is a table.
func (m Met) String() string {
	var lines []string
	line := func(kind string, of func(State) string) {
		cells := []string{kind}
		for _, state := range states {
			cells = append(cells, of(state))
		}
		lines = append(lines, strings.Join(cells, "\t")+"\t\n")
	}
	line("", func(state State) string { return string(state) })
	for _, kind := range slices.Sorted(maps.Keys(m)) {
		line(string(kind), func(state State) string { return strconv.Itoa(m[kind][state]) })
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', tabwriter.AlignRight)
	_, _ = w.Write([]byte(strings.Join(lines, ""))) // a builder takes all
	_ = w.Flush()                                   // likewise
	return b.String()
}

// meet notes what a deed meets: on one server, or on all of them.
func (g *play) meet(d *Deed, i int) {
	g.moment.follow(g.w.Story.Since(g.moment.read))
	met := map[State]int{}
	for j, s := range g.w.Servers {
		if j != i && d.What != KillAll && d.What != PowerAll && d.What != Storm {
			continue
		}
		found := g.moment.states(fmt.Sprintf("s%d", s.Number))
		found[Checkpoint] = s.Usage(checkpointsDir).Entries > 0
		found[Flushing] = s.Flushes()
		found[Staged] = s.Usage(stagedDir).Entries > 0
		for state, is := range found { // order: a sum
			if is {
				met[state] = 1
			}
		}
	}
	g.met.add(Met{d.What: met})
}
