package simulation

// plantsOfMembers are about who takes part, who leads, and how a member gets what it lacks.
func plantsOfMembers() []Plant {
	return []Plant{
		{
			Name: "emptied-votes", Bug: "a server that has lost its disk votes and acknowledges at once",
			Whose: "decision 18",
			Found: 2, Of: 24,
			Patches: []Patch{
				returns("emptied-votes", "quorum/rejoin.go",
					"	if !a.empty {\n		return a.anotherKnown()", "false"),
				returns("emptied-votes", "quorum/admit.go",
					"	if counted := a.members.counted(); counted != nil {", "true"),
				{"quorum/admit.go", "	counted := a.members.counted()\n	if counted == nil {",
					"	counted := a.members.counted()\n	if counted == nil || planted(\"emptied-votes\") {"},
				{"quorum/admit.go",
					"		if listed == a.met[id] ||",
					"		if planted(\"emptied-votes\") || listed == a.met[id] ||"},
			},
		},
		{
			Name: "incarnation-kept", Bug: "a server that has lost its disk is taken for the one that it was",
			Whose: "decision 18",
			Found: 1, Of: 38,
			Patches: []Patch{{"quorum/rejoin.go", "	r.incarnation = max(random.Uint64(), 1)",
				`	if r.incarnation = max(random.Uint64(), 1); planted("incarnation-kept") {
		r.incarnation = id
	}`}},
		},
		{
			Name: "not-added-again", Bug: "a server that was removed, as it has lost its disk, is not added again",
			Whose: "decision 18",
			Found: 3, Of: 12,
			Patches: []Patch{returns("not-added-again", "quorum/admit.go",
				"	for _, id := range slices.Sorted(maps.Keys(a.member.Returning)) {\n		o :=", "nil")},
		},
		{
			Name: "redial-given-up", Bug: "a server that a peer cannot reach for a while is not dialed any more",
			Whose: "ZOOKEEPER-2938",
			Found: 3, Of: 12,
			Patches: []Patch{{"quorum/transport/peer.go", "		wait = min(2*wait, backoffMost)", `
		if wait = min(2*wait, backoffMost); planted("redial-given-up") && wait == backoffMost {
			<-p.done
		}`}},
		},
		{
			Name: "install-forgets-sessions", Bug: "a server that gets a snapshot does not know its sessions",
			Whose: "ZOOKEEPER-1367",
			Found: 8, Of: 37,
			Patches: []Patch{{"storage/state/replace.go", "	err = m.load()\n", `	err = m.load()
	if planted("install-forgets-sessions") {
		clear(m.mu.Sessions)
	}
`}},
		},
		{
			Name: "barrier-not-asked-again", Bug: "a server that could not catch up with a leader once never serves",
			Whose: "ZOOKEEPER-3940",
			Found: 4, Of: 12,
			Patches: []Patch{unless("barrier-not-asked-again", "server/availability.go",
				"		a.retry.Reset(barrierRetry)")},
		},
		{
			Name: "dates-of-followers", Bug: "what a follower forwards bears the follower's time", Whose: "decision 24",
			Found: 11, Of: 12,
			Patches: []Patch{{"quorum/propose.go", "		entry.StampEntry(f.data, now)", `
		if !planted("dates-of-followers") {
			entry.StampEntry(f.data, now)
		}`}},
		},
	}
}

// plantsOfReconfigs are about what an operator makes of the membership.
func plantsOfReconfigs() []Plant {
	return []Plant{
		{
			Name: "removed-votes", Bug: "a server that was removed keeps its vote",
			Found: 2, Of: 12,
			Patches: []Patch{{"quorum/reconfigure.go", "		case !stays && r.leaving.keeps(id):",
				`		case !stays && planted("removed-votes"):
		case !stays && r.leaving.keeps(id):`}},
		},
		{
			Name: "observer-votes", Bug: "a participant that becomes an observer keeps its vote",
			Found: 1, Of: 27,
			Patches: []Patch{{"quorum/reconfigure.go", "		case stays && s.Observer && votes && quorum:",
				`		case stays && s.Observer && votes && quorum && !planted("observer-votes"):`}},
		},
		{
			Name: "never-promoted", Bug: "a server that joins does not get its vote when it has caught up",
			Found: 4, Of: 12,
			Patches: []Patch{{"quorum/reconfigure.go",
				"		case !s.Observer && !r.member.Votes(s.ID) && ready[s.ID]:",
				`		case !s.Observer && !r.member.Votes(s.ID) && ready[s.ID] && !planted("never-promoted"):`}},
		},
		{
			Name: "client-port-stays", Bug: "a server serves clients where it was, and not where a reconfig has it",
			Found: 1, Of: 40,
			Patches: []Patch{returns("client-port-stays", "server/instance/peers/follow.go",
				"	if addr == \"\" || addr == p.client || !p.config.Tree.Reconfig {", "")},
		},
	}
}
