package conf

import (
	"fmt"
	"maps"
	"slices"
)

// Groups and weights are taken if every majority of those who have a vote, and nothing else, is a quorum by them, as
// QuorumHierarchical.containsQuorum counts. It can say more; raft cannot.
const (
	moreThanOneGroup = "hierarchical quorums are not possible with raft, which counts each vote once; remove the groups"
	unequalWeights   = "each vote counts once in raft; give all participants the same weight, or remove the weights"
	noVotes          = "no participant would have a vote; give those that shall vote the same weight"
	observerWeight   = "an observer has no vote; its weight must be 0, or its number in no group"
	notInTheGroup    = "every participant must be in a group; add it, or remove the groups"
	notAServer       = "names a server that has no server line; remove it from the group"
	twiceInGroups    = "names a server that the groups name twice; remove one of the two"
)

// takeVotes makes observers of the participants whose weight is 0: as in ZooKeeper they follow, count in no quorum, and
// are not elected. If it is that of all of them there is nobody to follow, and Unsupported says so.
func (l *loader) takeVotes() {
	e := &l.config.Ensemble
	without := func(m Member) bool { return !m.Observer && e.weight(m.ID) == 0 }
	with := func(m Member) bool { return !m.Observer && e.weight(m.ID) != 0 }
	if e.voters() < 2 || !slices.ContainsFunc(e.Members, with) {
		return
	}
	for i, m := range e.Members {
		if !without(m) {
			continue
		}
		e.Members[i].Observer = true
		for _, s := range l.members {
			if id, _ := parseDecimal(s.index); id == m.ID && s.row.name == "weight.N" {
				const form = "server.%d has no vote: it is an observer; say so in its server line"
				l.notice(s.notice(NoticeAdjusted, fmt.Sprintf(form, m.ID)))
			}
		}
	}
}

// unequal says why the line name of number id asks for something else than a majority of the voters, or "".
func (e *Ensemble) unequal(name string, id int64) string {
	switch {
	case !e.Distributed: // nobody votes
		return ""
	case name == "weight.N":
		return e.unequalWeight(id)
	}
	for _, n := range e.Groups[id] {
		weight, said := e.Weights[n]
		switch {
		case e.inGroups(n) > 1:
			return twiceInGroups
		case e.byID(n) == nil && (!said || weight != 0):
			return notAServer
		}
	}
	grouped := func(m Member) bool { return m.Observer || e.inGroups(m.ID) > 0 }
	switch voting := e.votingGroups(); {
	case slices.ContainsFunc(e.Members, func(m Member) bool { return !grouped(m) }):
		return notInTheGroup
	case len(voting) > 1 && slices.Max(voting) > 1: // groups of one each: most of them are most of the servers
		return moreThanOneGroup
	}
	return ""
}

// unequalWeight is unequal for a line weight.N.
func (e *Ensemble) unequalWeight(id int64) string {
	m, weight := e.byID(id), e.Weights[id]
	switch {
	case m == nil: // it counts for nobody, unless a group names it, whose line says so
		return ""
	case m.Observer && weight != 0 && e.inGroups(id) > 0:
		return observerWeight
	case m.Observer:
		return ""
	case weight == 0:
		return noVotes
	case len(e.votingGroups()) < 2 && !e.weighMajorities():
		return unequalWeights
	}
	return ""
}

// weight is the weight of a server: if no line gives another, that of a participant is 1.
func (e *Ensemble) weight(id int64) int64 {
	if w, ok := e.Weights[id]; ok {
		return w
	}
	if m := e.byID(id); m == nil || m.Observer {
		return 0
	}
	return 1
}

// inGroups counts how often the groups name a server.
func (e *Ensemble) inGroups(id int64) int {
	n := 0
	for _, group := range e.Groups { // any order: counted
		for _, other := range group {
			if other == id {
				n++
			}
		}
	}
	return n
}

// votingGroups are the numbers of voters of the groups that have any. The others count for nothing, as groups of the
// weight 0 do (QuorumHierarchical.computeGroupWeight).
func (e *Ensemble) votingGroups() []int {
	var found []int
	for _, id := range slices.Sorted(maps.Keys(e.Groups)) {
		voters := 0
		for _, n := range e.Groups[id] {
			if m := e.byID(n); m != nil && !m.Observer {
				voters++
			}
		}
		if voters > 0 {
			found = append(found, voters)
		}
	}
	return found
}

// weighMajorities tells whether more than half of the voters' weight is with each majority of them, and with nobody
// else: the lightest that are a majority have it, and the heaviest that are none have not.
func (e *Ensemble) weighMajorities() bool {
	var weights []int64
	for _, m := range e.Members {
		if !m.Observer {
			weights = append(weights, e.weight(m.ID))
		}
	}
	slices.Sort(weights)
	sum := func(some []int64) int64 {
		var n int64
		for _, w := range some {
			n += w
		}
		return n
	}
	most, half := len(weights)/2+1, sum(weights)/2
	return sum(weights[:most]) > half && sum(weights[len(weights)-most+1:]) <= half
}
