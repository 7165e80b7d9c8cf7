package quorum

import (
	"errors"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage/entry"
)

// peerFrameBytes is the largest frame of package transport, its kind counted.
const peerFrameBytes = 64 << 20

// TestTheLargestProposalFitsAFrame: what is taken can be forwarded and replicated, and what is larger is refused before
// anything of it is kept.
func TestTheLargestProposalFitsAFrame(t *testing.T) {
	o := &Options{
		MaxEntryBytes: defaultMaxEntryBytes, MaxOutstandingBytes: defaultMaxOutstandingBytes, Clock: clock.Real(),
	}
	g := newGatherer(1, o, make(chan struct{}, 1))
	identity := jute.ID{Scheme: "digest", ID: string(make([]byte, 1<<20))}
	p := entry.Proposal{Op: jute.OpSetData, Identities: []jute.ID{identity, identity}}
	p.Body = make([]byte, ProposalBytesMax-proposalBytes(&p))
	if err := g.add(&p, nil); err != nil {
		t.Fatalf("the largest: %v", err)
	}
	entry := g.take(1, 0, nil)[0].data
	if n := 1 + len(appendForward(nil, 1, 2, 3, entry)); n > peerFrameBytes {
		t.Errorf("forwarded it has %d bytes", n)
	}
	number := uint64(1) << 63 // as long as numbers get
	m := &raftpb.Message{
		Type: raftpb.MsgApp.Enum(), From: &number, To: &number, Term: &number, Index: &number, LogTerm: &number,
		Commit: &number, Entries: []*raftpb.Entry{{Term: &number, Index: &number, Data: entry}},
	}
	frame, err := appendRaft(nil, m)
	if n := 1 + len(frame); err != nil || n > peerFrameBytes-1<<20 {
		t.Errorf("replicated it has %d bytes, and a reconfig adds to it: %v", n, err)
	}
	_, before := g.taken()
	p.Body = append(p.Body, 0)
	if err := g.add(&p, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a larger one: %v", err)
	}
	if err := g.addChange(nil, &p, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a larger reconfig: %v", err)
	}
	if _, after := g.taken(); after != before {
		t.Errorf("%d bytes are outstanding for what was refused", after-before)
	}
}
