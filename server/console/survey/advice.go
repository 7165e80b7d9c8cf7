package survey

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
)

// Level is how much a finding matters.
type Level string

// The levels, the worst first.
const (
	Bad  Level = "bad"
	Warn Level = "warning"
	Note Level = "note"
)

// Finding is something that is wrong, and what to do about it.
type Finding struct {
	Level    Level
	What, Do string
}

// Limits beyond which something is said. Guesses.
const (
	lagMany        = 1000 // entries
	skewMuch       = 1.0  // seconds
	queueLong      = 100  // requests
	latencyHigh    = 100  // milliseconds
	percentFull    = 90   // of the files that a process may open
	diskPercentLow = 10
)

// Findings says what is wrong with an ensemble as the sample shows it, the worst first.
func (s *Sample) Findings() []Finding {
	a := &advice{sample: s}
	a.members()
	for i := range s.Members {
		if m := &s.Members[i]; m.Err == nil {
			a.disks(m)
			a.load(m)
			a.others(m)
		}
	}
	a.versions()
	sort.SliceStable(a.found, func(i, j int) bool { return rank(a.found[i].Level) < rank(a.found[j].Level) })
	return a.found
}

// rank sorts levels.
func rank(l Level) int { return slices.Index([]Level{Bad, Warn, Note}, l) }

// advice gathers findings.
type advice struct {
	sample *Sample
	found  []Finding
}

func (a *advice) add(l Level, do, what string, args ...any) {
	a.found = append(a.found, Finding{l, fmt.Sprintf(what, args...), do})
}

// members looks at who is there.
func (a *advice) members() {
	voters, serving, leaders := 0, 0, 0
	for i := range a.sample.Members {
		m := &a.sample.Members[i]
		if m.Place.Role != "observer" {
			voters++
		}
		switch {
		case errors.Is(m.Err, errNoAddress):
			a.add(Note, "Add ;host:port to its line, then it is asked as the others are.", "%s is %v.", m.Name(), m.Err)
			voters-- // who is not asked is not known to be away
		case errors.Is(m.Err, errNotServing):
			a.add(Bad, "Look whether a majority of the voters runs and reaches each other, and at its log.",
				"%s: %v.", m.Name(), m.Err)
		case m.Err != nil:
			a.add(Bad, "Start it, or look at its log and at the network between here and there.",
				"%s cannot be asked: %v.", m.Name(), m.Err)
		case m.Place.Role != "observer":
			serving++
		}
		switch {
		case m.Role == "leader" || m.Role == "standalone":
			leaders++
		case strings.HasPrefix(m.Role, "read-only"):
			a.add(Bad, "Bring back a majority of the voters.", "%s serves reads only: it has no leader.", m.Name())
		}
		if m.Limited {
			a.add(Note, "Add mntr to 4lw.commands.whitelist of that server, or name the port of its admin server.",
				"%s tells little: of the four-letter words only srvr is allowed.", m.Name())
		}
	}
	quorum := voters/2 + 1
	switch {
	case voters < 2:
	case leaders == 0 && serving < quorum:
		a.add(Bad, fmt.Sprintf("Bring back %d more of the voters: nothing can be written before.", quorum-serving),
			"%d of %d voters answer, and a majority is %d.", serving, voters, quorum)
	case leaders == 0:
		a.add(Bad, "Wait for the election; if it goes on, look at the logs for why the voters do not reach each other.",
			"There is no leader.")
	case serving == quorum && serving < voters:
		a.add(Warn, "Bring back who is missing.", "One more voter that fails stops all writes: %d of %d answer.",
			serving, voters)
	case voters == 2:
		a.add(Note, "Add a third one: with two, each of them stops the writes when it fails.",
			"The ensemble has two voters.")
	}
}

// disks looks at the disks of a member.
func (a *advice) disks(m *Member) {
	f := m.Figures
	for _, store := range []string{"raftlog", "state"} {
		if hang, _ := f.Int(store + "_zkd_disk_hang_seconds"); hang > 0 {
			a.add(Bad, "Look at the disk and what else uses it; if it does not come back, replace the server.",
				"The disk of %s (%s) has not answered for %d s.", m.Name(), store, hang)
		}
		total, _ := f.Int(store + "_zkd_disk_bytes")
		free, ok := f.Int(store + "_zkd_disk_free_bytes")
		if ok && total > 0 && free*100/total < diskPercentLow {
			a.add(Warn, "Make room, or give the server a larger disk: when it is full, writes are refused.",
				"The disk of %s (%s) is nearly full: %d %% are free.", m.Name(), store, free*100/total)
		}
	}
	if low, _ := f.Int("zkd_low_space"); low > 0 && m.Role == "leader" || low > 0 && m.Role == "standalone" {
		a.add(Bad, "Make room on the disks of the servers, or delete znodes: deletes go on.",
			"Writes that need room are refused: the disks are nearly full.")
	}
	for peer, hangs := range f.Keyed("zkd_peer_disk_hangs") { // any order: sorted by level, few
		if hangs > 0 {
			a.add(Bad, "Look at the disk of that server.", "Server %s answers, and its disk does not.", peer)
		}
	}
	if writing, _ := f.Int("zkd_scrub_failures_total"); writing > 0 {
		a.add(Bad, "Stop it, empty its directories, and start it again: the others bring it up.",
			"A scrub has found damage in the state of %s.", m.Name())
	}
}

// load looks at how much a member has to do.
func (a *advice) load(m *Member) {
	f := m.Figures
	if waiting, _ := f.Int("outstanding_requests"); waiting > queueLong {
		a.add(Warn, "See who asks for so much under Sessions; give the server a faster disk, or more processors.",
			"%d requests wait at %s.", waiting, m.Name())
	}
	if m.HasLatency && m.Latency > latencyHigh {
		a.add(Warn, "See what the slow requests wait for in the server's log; most often it is the disk of the log.",
			"Requests at %s take %.0f ms now.", m.Name(), m.Latency)
	}
	open, _ := f.Int("open_file_descriptor_count")
	if most, ok := f.Int("max_file_descriptor_count"); ok && most > 0 && open*100/most >= percentFull {
		a.add(Bad, "Raise the limit (LimitNOFILE of the service), or close connections that nobody needs.",
			"%s has %d of %d files open: soon nobody can connect.", m.Name(), open, most)
	}
	if m.HasLag && m.Lag > lagMany {
		a.add(Warn, "If it does not catch up, look at its disk and at the network to it.",
			"%s is %d entries behind the leader.", m.Name(), m.Lag)
	}
	if p, _ := f.Float("connection_drop_probability"); p > 0 {
		a.add(Warn, "Find who connects again and again, or raise the limits of connection_throttle_*.",
			"%s turns away %.0f %% of new connections: too many come.", m.Name(), p*100)
	}
}

// others looks at what a member says of others, and of the ensemble.
func (a *advice) others(m *Member) {
	f := m.Figures
	skews := f.Keyed("zkd_clock_skew_seconds")
	for _, peer := range slices.Sorted(maps.Keys(skews)) {
		if skew := skews[peer]; (skew > skewMuch || skew < -skewMuch) && m.Role == "leader" {
			a.add(Warn, "Set the clocks by NTP.", "The clock of server %s is %.1f s off the leader's.", peer, skew)
		}
	}
	ports := f.Keyed("zkd_peer_port")
	for _, address := range slices.Sorted(maps.Keys(ports)) {
		if ports[address] == 0 {
			a.add(Bad, "Free the address on that machine, or correct the server's line.",
				"%s cannot listen for the others at %s.", m.Name(), address)
		}
	}
	if m.Role == "leader" {
		failures := f.Keyed("zkd_peer_snapshot_pause_seconds")
		for _, peer := range slices.Sorted(maps.Keys(failures)) {
			if failures[peer] > 0 {
				a.add(Warn, "Look at its log for why: most often its disk has no room for a second state.",
					"Server %s has not taken the snapshot that it needs; the next is sent in %.0f s.", peer,
					failures[peer])
			}
		}
	}
}

// versions compares the programs of the members.
func (a *advice) versions() {
	builds := map[string]bool{}
	for i := range a.sample.Members {
		m := &a.sample.Members[i]
		if m.Err == nil {
			builds[m.Version+" "+m.Zkd] = true
		}
		level, _ := m.Figures.Int("zkd_feature_level")
		if can, ok := m.Figures.Int("zkd_feature_level_supported"); ok && m.Role == "leader" && level < can {
			a.add(Note, "Upgrade the others; the leader raises the level when all can do it.",
				"The ensemble is at feature level %d, and its leader can do %d.", level, can)
		}
	}
	if len(builds) > 1 {
		a.add(Note, "Finish the upgrade.", "Not all servers run the same version: %s.",
			strings.Join(slices.Sorted(maps.Keys(builds)), ", "))
	}
}
