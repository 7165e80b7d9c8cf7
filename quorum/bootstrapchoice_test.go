package quorum

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/quorum/member"
	"zkd/storage/raftlog"
)

// founder is a member without data of three founders, of whom one may have data; it has heard one without and has
// waited for the other.
func founder(t *testing.T) (*loop, *BootstrapChoice) {
	t.Helper()
	l := newcomer(t, 3, false, Member{ID: 1}, Member{ID: 2}, Member{ID: 3})
	b, err := OpenBootstrapChoice(l.options.Log, false)
	if err != nil {
		t.Fatal(err)
	}
	l.options.BootstrapChoice = b
	l.begin()
	l.admission.greeted(2, member.Hello{Incarnation: 12})
	for range l.options.ElectionTicks {
		l.tick()
		l.turn()
	}
	if l.admission.quarantined() || b.Begun() {
		t.Fatalf("quarantined %v, begun %v", l.admission.quarantined(), b.Begun())
	}
	return l, b
}

// asked has a member be asked for its vote in the bootstrap without data.
func asked(l *loop) {
	m := askVote(2, l.id)
	index, term := uint64(bootstrapIndex), uint64(bootstrapTerm)
	m.Index, m.LogTerm = &index, &term
	l.inbox.put(arrival{from: 2, what: m})
	l.turn()
}

// TestAFounderIsForOneFoundingAlone has a member without data hear of data and be asked for its vote without it, in
// both orders: it does what comes first, and nothing for the other, after a start anew neither.
func TestAFounderIsForOneFoundingAlone(t *testing.T) {
	t.Run("data first", func(t *testing.T) {
		l, b := founder(t)
		if first, ok, err := b.GiveWay(1); !first || !ok || err != nil {
			t.Fatalf("it does not give way: %v, %v, %v", first, ok, err)
		}
		if first, ok, err := b.GiveWay(3); first || !ok || err != nil {
			t.Fatalf("it gives way twice: %v, %v, %v", first, ok, err)
		}
		asked(l)
		hard := l.raw.BasicStatus().HardState
		if hard.GetVote() != 0 || b.Begun() || l.admission.mayLead() || !b.GaveWay() {
			t.Errorf("it votes for %d, begun %v, may lead %v", hard.GetVote(), b.Begun(), l.admission.mayLead())
		}
		l.admission.greeted(1, member.Hello{Incarnation: 11})
		if l.admission.screen(askVote(1, 3)) || !l.admission.screen(askVote(2, 3)) {
			t.Error("it hears who has no data, or not who has it")
		}
		l.admission.greeted(2, member.Hello{
			Incarnation: 12, Known: l.admission.incarnation, Admitted: true, Founded: true,
		})
		written(t, l)
		if !l.admission.blank() {
			t.Error("it is let in by those whom it has given way")
		}
		b.Note(2)
		if l.admission.deafTo(2) {
			t.Error("it does not hear one that has given way, too")
		}
	})
	t.Run("data first, and it has the data by now", func(t *testing.T) {
		l, b := founder(t)
		if _, _, err := b.GiveWay(1); err != nil {
			t.Fatal(err)
		}
		if !l.admission.deafTo(3) {
			t.Fatal("it hears one that it has not met, and has nothing yet")
		}
		l.admission.founded = true // a snapshot has come
		if l.admission.deafTo(3) {
			t.Error("it does not hear a member of its ensemble that it has not met before: one that leads later")
		}
	})
	t.Run("the vote first", func(t *testing.T) {
		l, b := founder(t)
		asked(l)
		if hard := l.raw.BasicStatus().HardState; hard.GetVote() != 2 || !b.Begun() {
			t.Fatalf("vote %d, begun %v", hard.GetVote(), b.Begun())
		}
		if first, ok, err := b.GiveWay(1); first || ok || err != nil || b.GaveWay() {
			t.Errorf("it gives way, and has voted: %v", err)
		}
		written(t, l)
		again, err := OpenBootstrapChoice(l.options.Log, false)
		if err != nil || !again.Begun() {
			t.Errorf("after a start anew: begun %v, %v", again.Begun(), err)
		}
		if founded, err := OpenBootstrapChoice(l.options.Log, true); err != nil || founded.Begun() {
			t.Errorf("founded, and begun: %v", err)
		}
	})
	t.Run("let in before the vote", func(t *testing.T) {
		l, _ := founder(t)
		l.admission.takeIn(true)
		written(t, l)
		asked(l)
		written(t, l)
		if b, err := OpenBootstrapChoice(l.options.Log, false); err != nil || b.Begun() {
			t.Errorf("who was let in takes part in a founding: %v", err)
		}
	})
}

// TestGivingWayIsForGood: a server without data that has heard of data has no part in a founding without it after a
// power cut either, whoever has the data be gone.
func TestGivingWayIsForGood(t *testing.T) {
	fs := vfs.NewCrashableMem()
	log := openLog(t, fs, "log")
	b, err := OpenBootstrapChoice(log, false)
	if err != nil {
		t.Fatal(err)
	}
	if first, ok, err := b.GiveWay(3); !first || !ok || err != nil {
		t.Fatalf("it does not give way: %v, %v, %v", first, ok, err)
	}
	after := fs.CrashClone(vfs.CrashCloneCfg{}) // what was synced, and nothing else
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.GiveWay(2); err != nil {
		t.Errorf("what is durable is written again: %v", err)
	}

	l := newcomerOn(t, openLog(t, after, "log"), 1, false, Member{ID: 1}, Member{ID: 2}, Member{ID: 3})
	if b, err = OpenBootstrapChoice(l.options.Log, false); err != nil {
		t.Fatal(err)
	}
	l.options.BootstrapChoice = b
	l.begin()
	l.admission.greeted(2, member.Hello{Incarnation: 12})
	for range 3 * l.options.ElectionTicks {
		l.tick()
		l.turn()
	}
	asked(l)
	vote, leads := l.raw.BasicStatus().HardState.GetVote(), l.admission.mayLead()
	if vote != 0 || leads || b.Begun() || !b.GaveWay() {
		t.Errorf("vote %d, may lead %v, begun %v", vote, leads, b.Begun())
	}
	if !l.admission.deafTo(3) {
		t.Error("it hears one that has not said yet what it is")
	}
	if first, ok, err := b.GiveWay(3); first || !ok || err != nil || l.admission.deafTo(3) {
		t.Errorf("who has the data is back: %v, %v, %v", first, ok, err)
	}
	if err := l.options.Log.SetMeta(gaveWayKey, []byte{9}); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBootstrapChoice(l.options.Log, false); err == nil || !strings.Contains(err.Error(), "newer zkd") {
		t.Errorf("a mark of another format: %v", err)
	}
	if b, err := OpenBootstrapChoice(l.options.Log, true); err != nil || b.GaveWay() {
		t.Errorf("founded, and it has given way: %v", err)
	}
}

// TestWhoWasLetInStaysWithTheData: a server without data that has given way to data, was let in by those who have it,
// and has voted for one of them, takes part in no bootstrap without data when it is started anew before it has got
// anything.
func TestWhoWasLetInStaysWithTheData(t *testing.T) {
	fs := vfs.NewCrashableMem()
	founders := []Member{{ID: 1}, {ID: 2}, {ID: 3}}
	start := func(fs *vfs.MemFS) (*loop, *BootstrapChoice) {
		l := newcomerOn(t, openLog(t, fs, "log"), 3, false, founders...)
		b, err := OpenBootstrapChoice(l.options.Log, false)
		if err != nil {
			t.Fatal(err)
		}
		l.options.BootstrapChoice = b
		l.begin()
		return l, b
	}
	l, b := start(fs)
	if _, ok, err := b.GiveWay(2); !ok || err != nil {
		t.Fatalf("it does not give way: %v", err)
	}
	l.admission.greeted(2, member.Hello{Incarnation: 12, Known: l.admission.incarnation, Admitted: true, Founded: true})
	written(t, l)
	asked(l)
	written(t, l)
	if vote := l.raw.BasicStatus().HardState.GetVote(); vote != 2 || b.Begun() {
		t.Fatalf("vote %d, begun %v", vote, b.Begun())
	}

	l, b = start(fs.CrashClone(vfs.CrashCloneCfg{})) // what was synced, and nothing else
	l.turn()
	if vote := l.raw.BasicStatus().HardState.GetVote(); vote != 2 || b.Begun() || !b.GaveWay() {
		t.Errorf("after a start anew: vote %d, begun %v, has given way %v", vote, b.Begun(), b.GaveWay())
	}
	if _, ok, err := b.GiveWay(2); !ok || err != nil || l.admission.deafTo(2) {
		t.Errorf("it does not hear who has let it in: %v, %v", ok, err)
	}
}

// TestLateFoundersAreWaitedFor: with all founders heard it goes on at once, with a majority of them after a while.
func TestLateFoundersAreWaitedFor(t *testing.T) {
	l := newcomer(t, 3, false, Member{ID: 1}, Member{ID: 2}, Member{ID: 3})
	l.admission.greeted(1, member.Hello{Incarnation: 11})
	if !l.admission.quarantined() {
		t.Error("one that is late is not waited for")
	}
	l.admission.greeted(2, member.Hello{Incarnation: 12})
	if l.admission.quarantined() {
		t.Error("all are there, and it waits")
	}
	l.peerLost(1, false)
	l.peerLost(2, false)
	l.admission.greeted(2, member.Hello{Incarnation: 12})
	for n := 0; l.admission.quarantined(); n++ {
		if n > l.options.ElectionTicks/2 {
			t.Fatal("it waits for ever")
		}
		l.admission.tickFounders()
	}
}

// TestClusterOnData: the id of a cluster says how it was founded, and is the same at each start of who bootstraps it.
func TestClusterOnData(t *testing.T) {
	log := openLog(t, vfs.NewMem(), "log")
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	set := func(key string, blob []byte) {
		if err := log.SetMeta(key, blob); err != nil {
			t.Fatal(err)
		}
	}
	set(raftlog.ImportedKey, []byte{1})
	if !Unserved(log) {
		t.Error("an empty log has founded something")
	}
	id, err := DataCluster(log, strings.NewReader("twelve bytes"))
	if err != nil || !OnData(id) {
		t.Fatalf("%x, %v", id, err)
	}
	if again, err := DataCluster(log, strings.NewReader("")); err != nil || again != id {
		t.Errorf("%x, then %x, %v", id, again, err)
	}
	without, err := DrawCluster(bytes.NewReader(id[:]))
	if err != nil || OnData(without) || OnData([16]byte{}) {
		t.Errorf("%x is of data: %v", without, err)
	}
	if _, err := DrawCluster(strings.NewReader("short")); err == nil {
		t.Error("half an id was drawn")
	}
	set(bootstrapKey, []byte{9})
	if _, err := DataCluster(log, strings.NewReader("twelve bytes")); err == nil {
		t.Error("what a newer version has written was read")
	}
	if b, err := OpenBootstrapChoice(log, false); err != nil || b.Begun() {
		t.Errorf("who has data takes part in a founding without: %v", err)
	}
}

// TestDisguise: it tells of a cluster only that there is one, and whether that was founded on data.
func TestDisguise(t *testing.T) {
	onData := [16]byte{1, 2, 3}
	binary.BigEndian.PutUint32(onData[12:], onDataSum(&onData))
	for _, id := range [][16]byte{{7}, {8}, onData} {
		told := Disguise(id)
		if told == id || told == [16]byte{} || OnData(told) != OnData(id) || told != Disguise(id) {
			t.Errorf("%x is told as %x", id, told)
		}
	}
	if Disguise([16]byte{7}) == Disguise([16]byte{8}) {
		t.Error("two clusters are told as one")
	}
}
