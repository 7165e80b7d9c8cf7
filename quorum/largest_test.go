package quorum

import (
	"errors"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/storage/entry"
)

// peerFrameBytes is the largest frame of package transport, its kind counted.
const peerFrameBytes = 64 << 20

// TestTheLargestProposalFitsAFrame: what is taken can be forwarded and replicated, and what is larger is refused before
// anything of it is kept.
func TestTheLargestProposalFitsAFrame(t *testing.T) {
	// counted is what is counted for a proposal, and for an identity with its 8 bytes of lengths, beside their bytes.
	const counted, identityBytes = 48, 1 << 20
	g := testBatcher(defaultMaxEntryBytes, defaultMaxOutstandingBytes)
	identity := jute.ID{Scheme: "digest", ID: string(make([]byte, identityBytes))}
	p := entry.Proposal{Op: jute.OpSetData, Identities: []jute.ID{identity, identity}}
	p.Body = make([]byte, batcher.ProposalBytesMax-counted-2*(8+len(identity.Scheme)+identityBytes))
	if err := g.Add(&p, nil); err != nil {
		t.Fatalf("the largest: %v", err)
	}
	entry := g.Take(1, 0, nil)[0].Data
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
	before := g.Status()
	p.Body = append(p.Body, 0)
	if err := g.Add(&p, nil); !errors.Is(err, batcher.ErrTooLarge) {
		t.Errorf("a larger one: %v", err)
	}
	if err := g.AddChange(nil, &p, nil); !errors.Is(err, batcher.ErrTooLarge) {
		t.Errorf("a larger reconfig: %v", err)
	}
	if after := g.Status(); after != before {
		t.Errorf("what was refused leads from %+v to %+v", before, after)
	}
}
