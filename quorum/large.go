package quorum

import (
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A large entry takes the network and the disks long. What is not behind it in the log does not wait for it: messages
// of raft but for entries, and all else that members tell each other, pass it on its way (Transport.Send). The loop
// does not copy it to send it, and has patience with those who are at it.

const (
	// largeBytes is the size from which on an entry is not copied into the frame that it travels in. A guess: the copy
	// of a smaller one costs less than what goes with not making it.
	largeBytes = 64 << 10
	// bytesPerTick is how much a network or a disk takes at least in a tick, or else it is as good as none: a guess, 10
	// MiB/s with the default tick.
	bytesPerTick = 1 << 20
)

// patienceFor is for how many ticks longer than usual somebody may be busy who has so much to send or to store.
func patienceFor(bytes int) int { return bytes / bytesPerTick }

// repeatBytes is how much an append has that is not sent again while it may arrive yet. A guess: what is less costs
// little more than the answer to a heartbeat, which raft sends it with.
const repeatBytes = 64 << 10

// sentLarge is a large entry on its way to a member.
type sentLarge struct {
	index uint64
	bytes int
}

// sentAppend is an append of much on its way to a member.
type sentAppend struct {
	term, first uint64
	until       uint64 // the tick at which it is taken for lost
}

// onItsWay tells whether an append begins where the last one of much did, and that one may arrive yet. raft sends what
// a member lacks again with each answer to a heartbeat while it does not know how far the member is: heartbeats pass a
// large entry, and a member whose disk hangs answers them, and acknowledges nothing.
func (s *sender) onItsWay(m *raftpb.Message) bool {
	entries, sent := m.GetEntries(), s.appends[m.GetTo()]
	return len(entries) > 0 && sent.term == m.GetTerm() && sent.first == entries[0].GetIndex() && s.now < sent.until
}

// noteSent notes what was sent.
func (s *sender) noteSent(m *raftpb.Message) {
	entries, bytes := m.GetEntries(), 0
	for _, e := range entries {
		bytes += len(e.GetData())
	}
	if bytes < repeatBytes {
		return
	}
	s.appends[m.GetTo()] = sentAppend{m.GetTerm(), entries[0].GetIndex(),
		s.now + uint64(resendTicks+patienceFor(bytes))} //nolint:gosec // small and positive
	if last := entries[len(entries)-1]; len(last.GetData()) >= bytesPerTick {
		s.larges[m.GetTo()] = sentLarge{last.GetIndex(), len(last.GetData())}
	}
}

// patienceWith is for how many ticks longer than usual a member may acknowledge nothing beyond match.
func (s *sender) patienceWith(id, match uint64) int {
	if sent := s.larges[id]; sent.index > match {
		return patienceFor(sent.bytes)
	}
	return 0
}

// sendAppend sends a message with entries, or one that has to come behind such messages.
func (s *sender) sendAppend(m *raftpb.Message) bool {
	if s.onItsWay(m) {
		return true
	}
	entries := m.GetEntries()
	encode, kept := s.encodeRaft, []byte(nil)
	if n := len(entries); n > 0 && len(entries[n-1].GetData()) >= largeBytes {
		encode, kept = s.encodeLarge, entries[n-1].GetData()
	}
	sent := s.transport.SendInOrder(m.GetTo(), frameRaft, encode, kept)
	if sent {
		s.noteSent(m)
	}
	return sent
}

// The fields of raftpb.Message and raftpb.Entry that have the entries of one, and the data of the other.
const (
	messageEntries protowire.Number = 7
	entryData      protowire.Number = 4
)

// appendSendingLarge adds the message that is sent to a frame, but for the data of its last entry, which is to follow.
func (s *sender) appendSendingLarge(b []byte) []byte {
	m := s.sending
	entries := m.GetEntries()
	last := entries[len(entries)-1]
	m.Entries = entries[:len(entries)-1]
	b = s.appendSending(b)
	m.Entries = entries
	head, err := proto.Marshal(&raftpb.Entry{Type: last.Type, Term: last.Term, Index: last.Index})
	if err != nil { // numbers can be encoded; without them no member takes it
		return b
	}
	head = protowire.AppendTag(head, entryData, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(len(last.GetData())))
	b = protowire.AppendTag(b, messageEntries, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(head)+len(last.GetData())))
	return append(b, head...)
}
