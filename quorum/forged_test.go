package quorum

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/storage/raftlog"
	"zkd/storage/state"
)

// forgedHeader is that of a snapshot which a member sends to another one.
func forgedHeader(t *testing.T, from, to, term, index uint64) []byte {
	t.Helper()
	b, err := proto.Marshal(&raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), From: &from, To: &to, Term: &term,
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
			Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestOnlyTheLeaderSendsSnapshots: not a follower, not in the name of another one, and not in another term.
func TestOnlyTheLeaderSendsSnapshots(t *testing.T) {
	g := newTestGroup(t, 3, 0, nil)
	lead := g.leader().id
	g.write(lead, 1, 0, 5)
	g.agree(5)
	m := g.follower()
	other := 6 - lead - m.id
	s := m.node.Status()
	if err := m.node.CheckSnapshot(lead, forgedHeader(t, lead, m.id, s.Term, s.Commit)); !errors.Is(err, errOutdated) {
		t.Errorf("of an entry that is committed: %v, want %v", err, errOutdated)
	}
	for _, tc := range []struct {
		name             string
		by, in, to, term uint64
		want             error
	}{
		{"the leader", lead, lead, m.id, s.Term, nil},
		{"a follower", other, other, m.id, s.Term, errNotLeaders},
		{"in the leader's name", other, lead, m.id, s.Term, errNotLeaders},
		{"for another one", lead, lead, other, s.Term, errNotLeaders},
		{"of an earlier term", lead, lead, m.id, s.Term - 1, errNotLeaders},
		{"of a later term", lead, lead, m.id, s.Term + 1, ErrNoLeader},
		{"a follower of a later term", other, other, m.id, s.Term + 1, ErrNoLeader},
	} {
		if err := m.node.CheckSnapshot(tc.by, forgedHeader(t, tc.in, tc.to, tc.term, 1<<40)); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestAStateThatIsNotWhatItsHeaderSaysIsRefused, and removed; the member keeps what it has and goes on.
func TestAStateThatIsNotWhatItsHeaderSaysIsRefused(t *testing.T) {
	g := newTestGroup(t, 3, 0, nil)
	lead := g.leader().id
	g.write(lead, 1, 0, 5)
	g.agree(5)
	m := g.follower()
	fs := m.node.options.FS
	if err := fs.MkdirAll("forged", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fs.RemoveAll("forged") })
	term := m.node.Status().Term
	g.disk.put("forged", fakeState{index: 7, term: term})
	for name, header := range map[string][]byte{ // order: each alone
		"another entry": forgedHeader(t, lead, m.id, term, 1<<40),
		"another term":  forgedHeader(t, lead, m.id, term+1, 7),
	} {
		if err := m.node.Staged(lead, header, "forged"); !errors.Is(err, errStaged) {
			t.Errorf("%s: %v, want %v", name, err, errStaged)
		}
		if _, err := fs.Stat("forged"); err == nil {
			t.Errorf("%s: it is left there", name)
		}
	}
	if err := m.node.Staged(lead, forgedHeader(t, lead, m.id, term, 1<<40), "nothing"); !errors.Is(err, errStaged) {
		t.Errorf("no state at all: %v", err)
	}
	g.write(m.id, 1, 5, 5)
	checkOrder(t, g.agree(10), nil, 10)
}

// settleDir is an InstallDir that notes what it is told.
type settleDir struct {
	fits      bool
	discarded bool
}

func (d *settleDir) FinishInstall(fits func(dir string) error) (bool, error) {
	d.fits = fits("staged") == nil
	return d.fits, nil
}

func (d *settleDir) DiscardInstall() error {
	d.discarded = true
	return nil
}

// TestSettleInstall finishes an install whose state is the one of the mark, and gives up every other one.
func TestSettleInstall(t *testing.T) {
	in := &install{term: 5}
	in.member.Index, in.member.Conf = 100, &raftpb.ConfState{Voters: []uint64{1, 2, 3}}
	for _, tc := range []struct {
		name  string
		found state.Verified
		err   error
		goes  bool // on with it
	}{
		{"the one of the mark", state.Verified{Index: 100, Term: 5}, nil, true},
		{"of another entry", state.Verified{Index: 99, Term: 5}, nil, false},
		{"of another term", state.Verified{Index: 100, Term: 4}, nil, false},
		{"not readable", state.Verified{}, errInjected, false},
	} {
		log := openLog(t, vfs.NewMem(), "log")
		dir := &settleDir{}
		settle := func(log *raftlog.Log) {
			verify := func(string) (state.Verified, error) { return tc.found, tc.err }
			if err := SettleInstall(log, dir, verify); err != nil {
				t.Fatal(err)
			}
		}
		if settle(log); !dir.discarded {
			t.Error("without a mark, what is there is not removed")
		}
		dir.discarded = false
		if err := in.begin(log); err != nil {
			t.Fatal(err)
		}
		settle(log)
		if _, waits := log.Meta(installingKey); dir.fits != tc.goes || dir.discarded == tc.goes || waits != tc.goes {
			t.Errorf("%s: %+v, still under way: %v", tc.name, dir, waits)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
