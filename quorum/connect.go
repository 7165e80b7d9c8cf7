package quorum

// connect gives the components what they know and whom they call.
func (l *loop) connect() {
	l.connectMembers()
	l.connectLeader()
	l.connectWatchers()
}

// connectMembers connects those that decide who belongs to the group, who counts, and who gets what.
func (l *loop) connectMembers() {
	f, t := &l.facts, l.transport
	l.members = members{
		facts: f, transport: t, makeSo: l.raw.ApplyConfChange, changed: l.membersChanged,
		recounted: l.admission.tellAll, reconfig: &l.reconfig,
	}
	l.admission = admission{
		facts: f, transport: t, members: &l.members, election: &l.election, checkpoints: &l.checkpoints,
		clocks: &l.clocks, transfer: &l.transfer, store: l.store, sendRaft: l.sender.send, propose: l.proposeOwnChange,
		changed: l.status.publish, heardAt: l.reconfig.heardAt,
	}
	l.reconfig = reconfiguring{
		facts: f, transport: t, inbox: l.inbox, transfer: &l.transfer, leaving: &l.leaving,
		settled:       &l.progress.reconfigured,
		changePending: l.members.changePending, changing: l.members.changing, propose: l.proposeOwnChange,
		withAdmissions: l.admission.withAdmissions, awaitsListing: l.admission.awaitsListing,
	}
	l.leaving = leaving{facts: f, heard: l.reconfig.heardAt}
	l.inForce = inForce{facts: f, leaving: &l.leaving}
	l.checkpoints = checkpoints{
		facts: f, toCheckpointer: l.toCheckpointer, report: l.raw.ReportSnapshot, memberAt: l.members.at,
		clocks: &l.clocks, retention: &l.retention, space: &l.space,
	}
	l.retention = retention{facts: f, shared: newRetained(t == nil), pins: l.checkpoints.pins}
}

// connectLeader connects those that see to it that there is a leader, and bring to it what is to be done.
func (l *loop) connectLeader() {
	f, t := &l.facts, l.transport
	l.election = election{
		facts: f, begin: l.raw.Campaign, step: l.stepRaft, may: l.mayCampaign, seen: &l.progress.electionSeen,
		quorumNear: l.admission.quorumNear, votersChangeLogged: l.members.votersChangeLogged,
	}
	l.transfer = transfer{
		facts: f, transferLeader: l.raw.TransferLeader, answers: l.health.takesOver, hasSpace: l.space.hasSpace,
		forDisk: &l.progress.diskTransfers,
	}
	l.reads = readIndex{facts: f, batcher: l.batcher, apply: l.toApply, index: l.raw.ReadIndex, step: l.stepRaft}
	l.forwarding = forwarding{facts: f, transport: t, batcher: l.batcher, reads: &l.reads}
	l.levels = levels{facts: f, alone: t == nil, changePending: l.members.changePending}
	l.compare = comparison{facts: f, transport: t}
	l.counting = counting{facts: f}
	l.uncachedReads = uncachedReads{
		facts: f, view: l.view, chunks: l.chunks, step: l.stepRaft, stallTicks: l.health.stallTicks,
	}
	l.sender = sender{
		facts: f, transport: t, unreachable: l.raw.ReportUnreachable, admission: &l.admission,
		checkpoints: &l.checkpoints, election: &l.election, reads: &l.reads, retention: &l.retention, space: &l.space,
		encodeRaft: l.sender.appendSending, encodeLarge: l.sender.appendSendingLarge, larges: map[uint64]sentLarge{},
		appends: map[uint64]sentAppend{},
	}
}

// connectWatchers connects those that watch disks and clocks, and tell what they see.
func (l *loop) connectWatchers() {
	f, t := &l.facts, l.transport
	l.health = health{
		facts: f, alone: t == nil, patienceWith: l.sender.patienceWith, forgetLeader: l.raw.ForgetLeader,
		mayLead: l.admission.mayLead, role: l.status.role, changed: l.status.publish, transfer: &l.transfer,
		stall: newStall(&l.progress),
	}
	l.health.newLeadership()
	l.space = spaceControl{
		facts: f, transport: t, transfer: &l.transfer, changed: l.status.publish,
		more:      func(id uint64) { l.checkpoints.retrySoon(id, false) },
		published: &l.progress.space, refused: &l.progress.refused,
	}
	l.commits = commitWatch{facts: f, health: &l.health, changed: l.status.publish}
	l.voterWatch = voterWatch{facts: f, admission: &l.admission, published: &l.progress.missingVoters}
	l.status = status{
		facts: f, progress: &l.progress, admission: &l.admission, space: &l.space, health: &l.health,
		checkpoints: &l.checkpoints, retention: &l.retention, leaving: &l.leaving, commits: &l.commits,
	}
}
