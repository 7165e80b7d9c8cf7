package quorum

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/quorum/member"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
)

// TestStreamRule sends batches of two processes to a receiver over a network that loses, doubles and reorders without
// bound: whatever comes, each process's batches are accepted in order, each once, and after a gap only what begins a
// higher epoch. A process that gives a batch up begins one.
func TestStreamRule(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		var receiver forwardReceiver
		var flying []*forward
		accepted := map[uint64][]uint64{}
		senders := []*streamSender{{origin: 1, epoch: 1}, {origin: 2, epoch: 1}}
		for range 2000 {
			s := senders[random.IntN(2)]
			switch random.IntN(6) {
			case 0:
				flying = append(flying, s.next())
			case 1: // all that may not have arrived is sent again
				flying = append(flying, s.sent...)
			case 2:
				if random.IntN(10) == 0 {
					s.giveUp()
				}
			default:
				if len(flying) == 0 {
					continue
				}
				i := random.IntN(len(flying))
				f := flying[i]
				if random.IntN(3) > 0 {
					flying = slices.Delete(flying, i, i+1)
				}
				if ok, missing, last := receiver.accept(f); ok {
					accepted[f.origin] = append(accepted[f.origin], f.number)
				} else if missing && last >= f.number {
					t.Fatalf("seed %d: batch %d is refused for %d", seed, f.number, last)
				}
			}
		}
		for _, s := range senders {
			s.check(t, seed, accepted[s.origin])
		}
	}
}

// streamSender is a process that forwards.
type streamSender struct {
	origin, epoch, number, last uint64
	sent                        []*forward // of this epoch
	all                         []*forward
}

// next sends another batch.
func (s *streamSender) next() *forward {
	s.number++
	f := &forward{origin: s.origin, epoch: s.epoch, prev: s.last, number: s.number}
	s.last = s.number
	s.sent, s.all = append(s.sent, f), append(s.all, f)
	return f
}

// giveUp begins a higher epoch.
func (s *streamSender) giveUp() { s.epoch, s.last, s.sent = s.epoch+1, 0, nil }

// check fails unless what was accepted is, of each epoch, a beginning, and the epochs are in order.
func (s *streamSender) check(t *testing.T, seed uint64, accepted []uint64) {
	t.Helper()
	last, epoch := uint64(0), uint64(0)
	for _, number := range accepted {
		f := s.all[number-1]
		if f.epoch < epoch || number <= last || f.epoch == epoch && f.prev != last || f.epoch > epoch && f.prev != 0 {
			t.Fatalf("seed %d: process %d: batch %+v is accepted after %d of epoch %d", seed, s.origin, f, last, epoch)
		}
		last, epoch = number, f.epoch
	}
}

func TestIntakeIsBounded(t *testing.T) {
	var receiver forwardReceiver
	first := &forward{origin: 1, epoch: 1, number: 1, data: make([]byte, maxForwardedBytes)}
	if ok, _, _ := receiver.accept(first); !ok {
		t.Fatal("the first batch is refused")
	}
	second := &forward{origin: 1, epoch: 1, prev: 1, number: 2, data: make([]byte, 1)}
	if ok, missing, last := receiver.accept(second); ok || !missing || last != 1 {
		t.Errorf("beyond the bound: accepted %v, missing %v, last %d", ok, missing, last)
	}
	receiver.clear(1)
	if ok, _, _ := receiver.accept(second); !ok {
		t.Error("the batch is refused when there is room again")
	}
}

// entryOfOne is an entry with one proposal.
func entryOfOne(origin, batch uint64) []byte {
	return entry.AppendProposal(entry.AppendEntryHeader(nil, origin, batch), proposal(applied{1, 2}, 10))
}

func TestFramesAreChecked(t *testing.T) {
	good := appendForward(nil, 3, 4, 5, entryOfOne(77, 6))
	f, _, err := decodeForward(good)
	if err != nil || f.term != 3 || f.epoch != 4 || f.prev != 5 || f.origin != 77 || f.number != 6 {
		t.Fatalf("decoded %+v, %v", f, err)
	}
	for name, frame := range map[string][]byte{ // order: each for itself
		"short": good[:20], "cut entry": good[:len(good)-1], "no entry": good[:forwardHeaderBytes],
		"out of order": appendForward(nil, 3, 4, 6, entryOfOne(77, 6)),
	} {
		if _, _, err := decodeForward(frame); !errors.Is(err, errFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := refusal{1, 2, 3, 4}
	if got, err := decodeRefusal(r.append(nil)); err != nil || got != r {
		t.Errorf("refusal %+v, %v", got, err)
	}
	h := member.Hello{Incarnation: 8, Known: 9, Answer: true}
	if got, err := member.DecodeHello(h.Append(nil)); err != nil || got != h {
		t.Errorf("hello %+v, %v", got, err)
	}
	for _, m := range []*raftpb.Message{
		{Type: raftpb.MsgHup.Enum()}, {Type: raftpb.MsgProp.Enum()}, {Type: raftpb.MsgSnap.Enum()},
		{Type: raftpb.MsgStorageAppend.Enum()}, {Type: raftpb.MsgReadIndex.Enum()}, {Type: raftpb.MsgBeat.Enum()},
		{Type: raftpb.MsgHeartbeat.Enum(), Context: []byte{1}}, {Type: raftpb.MsgTransferLeader.Enum()},
		{Type: raftpb.MsgApp.Enum(), Entries: []*raftpb.Entry{raftEntry(&raftlog.LogEntry{Index: 7, Term: 1})}},
	} {
		m.From, m.To, m.Term = proto.Uint64(2), proto.Uint64(1), proto.Uint64(1)
		body, err := appendRaft(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeRaft(body, 2, 1); err == nil {
			t.Errorf("a message of type %v is taken", m.GetType())
		}
	}
	ok, err := appendRaft(nil, &raftpb.Message{
		Type: raftpb.MsgHeartbeat.Enum(), From: proto.Uint64(2), To: proto.Uint64(1), Term: proto.Uint64(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to uint64
		want     bool
	}{{2, 1, true}, {3, 1, false}, {2, 3, false}} {
		if _, err := decodeRaft(ok, c.from, c.to); (err == nil) != c.want {
			t.Errorf("a message from 2 to 1 that comes from %d to %d: %v", c.from, c.to, err)
		}
	}
}

// FuzzReceive gives a member whatever bytes another one may send: it neither panics nor ends.
func FuzzReceive(f *testing.F) {
	f.Add(uint8(frameForward), appendForward(nil, 2, 1, 0, entryOfOne(1, 1)))
	f.Add(uint8(frameRefusal), refusal{2, 1, 1, 0}.append(nil))
	f.Add(uint8(frameHello), member.Hello{Incarnation: 1}.Append(nil))
	n := &Node{options: Options{ID: 1}, loop: &loop{}}
	n.loop.progress.state.Store(&State{})
	n.loop.progress.following.Store(&following{})
	f.Fuzz(func(_ *testing.T, kind uint8, body []byte) {
		_, _ = n.decode(2, kind, body) // what matters is that it returns
	})
}

// TestInboxBoundsEachMember fills one member's share: that member waits, another one does not.
func TestInboxBoundsEachMember(t *testing.T) {
	b := newInbox(make(chan struct{}, 1))
	b.put(arrival{from: 2, bytes: maxInboxBytes, what: lost{}})
	waits := make(chan bool, 1)
	go func() { waits <- b.put(arrival{from: 2, bytes: 1, what: lost{}}) }()
	if !b.put(arrival{from: 3, bytes: 1, what: lost{}}) || !b.put(arrival{from: 2, what: lost{}}) {
		t.Fatal("another member's frame, or news, is refused")
	}
	if !b.full(2) || b.full(3) {
		t.Error("the shares are mixed up")
	}
	taken := len(b.take(nil))
	if !<-waits {
		t.Error("the member that waited is refused")
	}
	if taken += len(b.take(nil)); taken != 4 {
		t.Errorf("%d arrivals, want 4", taken)
	}
	b.put(arrival{from: 2, bytes: maxInboxBytes, what: lost{}})
	go func() { waits <- b.put(arrival{from: 2, bytes: 1, what: lost{}}) }()
	b.close()
	if <-waits {
		t.Error("a closed inbox takes a frame")
	}
}
