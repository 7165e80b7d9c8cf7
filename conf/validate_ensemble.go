package conf

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"time"
)

func (l *loader) finishEnsemble() {
	e := &l.config.Ensemble
	l.checkPeerType()
	voters := e.voters()
	observers := len(e.Members) - voters
	e.Distributed = voters > 1 || !e.StandaloneEnabled
	switch {
	case voters == 0 && !e.StandaloneEnabled:
		if !l.hasProblem("server.", "standaloneEnabled") {
			l.refuse("standaloneEnabled", "false needs at least one server line that is a participant")
		}
	case voters == 0 && observers > 0:
		l.report(Problem{Key: "server.N",
			Allowed: "observers need participants; none of the server lines is one"})
	case voters == 1 && e.StandaloneEnabled && observers > 0:
		l.report(Problem{Key: "server.N",
			Allowed: "a single participant with observers needs standaloneEnabled=false"})
	}
	e.InitTimeout = ticks(e.InitLimit, l.config.Session.TickTime)
	e.SyncTimeout = ticks(e.SyncLimit, l.config.Session.TickTime)
	if e.Distributed {
		l.checkDistributed()
	} else if e.Join && !l.hasProblem("server.") {
		l.refuse("zkd.join", "needs the server lines of the ensemble to join, and this server's own")
	}
	if e.SecretFile == "" && e.SecretRequired && l.isSet("zkd.quorum.secretRequired") {
		l.refuse("zkd.quorum.secretRequired", "needs zkd.quorum.secretFile")
	}
	if l.config.Tree.ExtendedTypes && e.Distributed && e.MyID > maxExtendedID {
		l.report(Problem{Key: "myid", Source: l.myIDSource, Value: strconv.FormatInt(e.MyID, 10),
			Allowed: "must be 254 or less with extendedTypesEnabled=true"})
	}
}

// maxExtendedID is the largest server id with TTL nodes: EphemeralType.MAX_EXTENDED_SERVER_ID.
const maxExtendedID = 254

// checkPeerType checks the word and lets the server line win.
func (l *loader) checkPeerType() {
	e := &l.config.Ensemble
	s := l.settings["peerType"]
	switch lower := asciiLower(s.value); lower {
	case "participant", "observer":
	default:
		l.refuse("peerType", "must be participant or observer")
		return
	}
	own := e.member()
	isObserver := own != nil && own.Observer
	if own != nil && isObserver != e.Observer && l.isSet("peerType") {
		l.notice(s.notice(NoticeMismatch, "disagrees with the server lines, which win"))
	}
	e.Observer = isObserver
}

// checkDistributed checks what only an ensemble needs.
func (l *loader) checkDistributed() {
	e := &l.config.Ensemble
	if e.InitLimit == 0 && !l.hasProblem("initLimit") {
		l.refuse("initLimit", "must be set in an ensemble, in ticks")
	}
	if e.SyncLimit == 0 && !l.hasProblem("syncLimit") {
		l.refuse("syncLimit", "must be set in an ensemble, in ticks")
	}
	switch {
	case l.hasProblem("myid"):
	case e.MyID == NoID && l.myIDSource != "":
		l.report(Problem{Key: "myid", Source: l.myIDSource, Value: strconv.FormatInt(e.MyID, 10),
			Allowed: "is the number of no server; write the one of this server's line"})
	case e.MyID == NoID:
		l.report(Problem{Key: "myid",
			Allowed: fmt.Sprintf("the file %s with this server's number is missing",
				filepath.Join(l.config.Storage.DataDir, "myid"))})
	case e.member() == nil && len(e.Members) > 0 && !l.hasProblem("server."):
		// QuorumPeer.start. A server that joins needs its line too: the others connect to its address.
		l.report(Problem{Key: "myid", Source: l.myIDSource, Value: strconv.FormatInt(e.MyID, 10),
			Allowed: fmt.Sprintf("is not the number of any server line; correct it, or add the line server.%d",
				e.MyID)})
	}
	l.checkAddresses()
	l.checkNumbers()
	l.noticeVoters()
	if own := e.member(); own != nil {
		e.Listen = e.listen(own)
	}
}

// checkAddresses refuses what ZooKeeper lets start and cannot work: a peer port that nobody could know, and two members
// at one peer address.
func (l *loader) checkAddresses() {
	holder := map[string]int64{}
	for _, m := range l.config.Ensemble.Members {
		s := l.memberLines[m.ID]
		for _, a := range m.Addresses {
			if a.PeerPort == 0 {
				l.report(s.problem("the peer port must not be 0: the other members could not find it"))
				continue
			}
			address := PeerAddress{Host: canonicalHost(a.Host), PeerPort: a.PeerPort}.Peer()
			if other, taken := holder[address]; taken && other != m.ID {
				const form = "has the peer address %s of server.%d; each member needs its own"
				l.report(s.problem(fmt.Sprintf(form, a.Peer(), other)))
				continue
			}
			holder[address] = m.ID
		}
	}
}

// levelOfNumbers is the feature level from which on servers have numbers that are not positive (entry.LevelNumbers).
const levelOfNumbers = 3

// checkNumbers refuses such a number where the operator keeps the ensemble at a level below: a program that can do no
// more could be let in, and reads no such line.
func (l *loader) checkNumbers() {
	e := &l.config.Ensemble
	for _, m := range e.Members {
		if m.ID <= 0 && e.FeatureLevelMax > 0 && e.FeatureLevelMax < levelOfNumbers {
			l.report(l.memberLines[m.ID].problem(fmt.Sprintf("the number %d needs feature level %d, and "+
				"zkd.featureLevelMax is %d", m.ID, levelOfNumbers, e.FeatureLevelMax)))
		}
	}
}

// noticeVoters tells how few failures a number of voters survives, as QuorumPeerConfig.parseDynamicConfig does.
func (l *loader) noticeVoters() {
	n := Notice{Kind: NoticeAdvice, Key: "server.N"}
	switch voters := l.config.Ensemble.voters(); {
	case voters == 2:
		n.Message = "two voters do not survive the loss of one; three do"
	case voters > 2 && voters%2 == 0:
		n.Message = fmt.Sprintf("%d voters survive the loss of no more than %d do; an odd number costs less",
			voters, voters-1)
	default:
		return
	}
	l.notice(n)
}

// ticks is n ticks, or the longest time there is.
func ticks(n int, tick time.Duration) time.Duration {
	if n > 0 && tick > math.MaxInt64/time.Duration(n) {
		return math.MaxInt64
	}
	return time.Duration(n) * tick
}
