package conf

import "slices"

// Groups and weights are taken if every majority of the voters, and nothing else, is a quorum by them: one group with
// all of them, and the same weight for each. QuorumHierarchical, which they are for, can say more; raft cannot.
const (
	moreThanOneGroup = "hierarchical quorums are not possible with raft, which counts each vote once; remove the groups"
	unequalWeights   = "each vote counts once in raft; give all participants the same weight, or remove the weights"
	noWeight         = "a participant without a vote is not possible; make it an observer in its server line"
	observerWeight   = "an observer has no vote; its weight must be 0"
	notInTheGroup    = "every participant must be in the group; add it, or remove the group"
	notAServer       = "names a server that has no server line; remove it from the group"
)

// unequal says why the line name of number id asks for something else than a majority of the voters, or "".
func (e *Ensemble) unequal(name string, id int64) string {
	if name == "weight.N" {
		return e.unequalWeight(id)
	}
	switch group := e.Groups[id]; {
	case len(e.Groups) > 1:
		return moreThanOneGroup
	case slices.ContainsFunc(group, func(id int64) bool { return e.byID(id) == nil }):
		return notAServer
	case slices.ContainsFunc(e.Members, func(m Member) bool { return !m.Observer && !slices.Contains(group, m.ID) }):
		return notInTheGroup
	}
	return ""
}

// unequalWeight is unequal for a line weight.N.
func (e *Ensemble) unequalWeight(id int64) string {
	m, weight := e.byID(id), e.Weights[id]
	switch {
	case m == nil: // it counts for nobody
		return ""
	case m.Observer && weight != 0:
		return observerWeight
	case m.Observer:
		return ""
	case weight == 0:
		return noWeight
	case slices.ContainsFunc(e.Members, func(m Member) bool { return !m.Observer && e.weight(m.ID) != weight }):
		return unequalWeights
	}
	return ""
}

// weight is the weight of a participant: 1 if no line gives another.
func (e *Ensemble) weight(id int64) int64 {
	if w, ok := e.Weights[id]; ok {
		return w
	}
	return 1
}
