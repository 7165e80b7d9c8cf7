package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/serverid"
)

// The kinds of frames between members. Integers in them are big-endian, 8 bytes each.
const (
	frameRaft    = 1 // raftpb.Message in protobuf
	frameForward = 2 // term, epoch, number of the batch before, then the entry
	frameRefusal = 3 // term, origin, epoch, number of the last batch accepted
	frameReport  = 4 // opaque, for the leader's OnReport
	frameHello   = 5 // member.Hello
	frameMembers = 6 // the membership as it is on disk, for who may know an older one, or does not belong to it

	frameAddresses = 11 // see decodeAddresses
	frameClock     = 12 // see clockFrame; for members that have said in their hello that they know it
	frameSums      = 13 // the sums of the sender's state at a mark, for the leader: entry.CompareTxn
	frameSpace     = 14 // see spaceFrame; from level 2 on
)

// errFrame means a frame that no member of this group sends.
var errFrame = errors.New("frame is malformed")

// appendRaft adds the encoding of a message to b.
func appendRaft(b []byte, m *raftpb.Message) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(b, m)
}

// decodeRaft reads a message from a member to another one. It refuses what raft would take from nobody but its own
// process, and what it would panic on.
func decodeRaft(body []byte, from, to uint64) (*raftpb.Message, error) {
	m := &raftpb.Message{}
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("decode raft message: %w", err)
	}
	if m.GetFrom() != from || m.GetTo() != to {
		return nil, fmt.Errorf("%w: raft message from %d to %d", errFrame,
			serverid.Number(m.GetFrom()), serverid.Number(m.GetTo()))
	}
	ok := m.GetSnapshot() == nil && len(m.GetResponses()) == 0
	switch m.GetType() {
	case raftpb.MsgApp:
		ok = ok && m.GetTerm() > 0 && consecutive(m)
	case raftpb.MsgReadIndex, raftpb.MsgReadIndexResp:
		ok = ok && len(m.GetEntries()) == 1
	case raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp:
		ok = ok && m.GetTerm() > 0 && (len(m.GetContext()) == 0 || len(m.GetContext()) == 8)
	case raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgTimeoutNow:
		ok = ok && m.GetTerm() > 0
	default:
		ok = false
	}
	if !ok {
		return nil, fmt.Errorf("%w: raft message of type %v", errFrame, m.GetType())
	}
	return m, nil
}

// consecutive tells whether the entries of an append follow one another and the entry before.
func consecutive(m *raftpb.Message) bool {
	index, term := m.GetIndex(), m.GetLogTerm()
	for _, e := range m.GetEntries() {
		index++
		if e.GetIndex() != index || e.GetTerm() < term || e.GetTerm() > m.GetTerm() {
			return false
		}
		term = e.GetTerm()
	}
	return true
}

// forward is one batch on its way from the member that it was added on to the leader.
type forward struct {
	term   uint64 // of the leadership that it is meant for: no other takes it
	epoch  uint64 // of the stream of batches
	prev   uint64 // the number of the batch before it in the stream, 0 at its beginning
	origin uint64 // of the entry
	number uint64 // of the batch
	reconf bool   // it is a reconfig, of which the leader makes a change
	data   []byte // the entry
}

// forwardHeaderBytes is the size of what precedes the entry.
const forwardHeaderBytes = 3 * 8

// appendForward adds the encoding of a batch to b.
func appendForward(b []byte, term, epoch, prev uint64, entry []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, term)
	b = binary.BigEndian.AppendUint64(b, epoch)
	b = binary.BigEndian.AppendUint64(b, prev)
	return append(b, entry...)
}

// decodeForward reads what appendForward wrote, and whose writes they are; the entry is copied. A client that comes
// back has yet to show that the session is its own.
func decodeForward(b []byte) (f *forward, sessions []jute.SessionID, err error) {
	if len(b) < forwardHeaderBytes {
		return nil, nil, errFrame
	}
	reader, err := entry.NewReader(b[forwardHeaderBytes:])
	if err != nil {
		return nil, nil, fmt.Errorf("%w: forwarded entry: %w", errFrame, err)
	}
	f = &forward{
		term: binary.BigEndian.Uint64(b), epoch: binary.BigEndian.Uint64(b[8:]), prev: binary.BigEndian.Uint64(b[16:]),
		origin: reader.Origin, number: reader.Batch, data: append([]byte(nil), b[forwardHeaderBytes:]...),
	}
	var p entry.Proposal
	proposals := 0
	for ; reader.Next(&p); proposals++ { // an entry that cannot be read would stop every member
		f.reconf = f.reconf || p.Op == jute.OpReconfig
		if p.Level() == 0 {
			return nil, nil, fmt.Errorf("%w: forwarded operation %d with flags %#x is not known", errFrame, p.Op,
				p.Flags)
		}
		if last := len(sessions) - 1; p.Op != entry.OpReattachSession && (last < 0 || sessions[last] != p.Session) {
			sessions = append(sessions, p.Session)
		}
	}
	if reader.Err() != nil || f.number <= f.prev || f.reconf && proposals > 1 {
		return nil, nil, fmt.Errorf("%w: forwarded batch %d after %d", errFrame, f.number, f.prev)
	}
	return f, sessions, nil
}

// refusal says that the leader lacks a batch before the one that came: all behind last must be sent again.
type refusal struct{ term, origin, epoch, last uint64 }

// append adds the encoding of r to b.
func (r refusal) append(b []byte) []byte {
	for _, n := range [...]uint64{r.term, r.origin, r.epoch, r.last} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// decodeRefusal reads what append wrote.
func decodeRefusal(b []byte) (refusal, error) {
	if len(b) != 4*8 {
		return refusal{}, errFrame
	}
	return refusal{
		term: binary.BigEndian.Uint64(b), origin: binary.BigEndian.Uint64(b[8:]),
		epoch: binary.BigEndian.Uint64(b[16:]), last: binary.BigEndian.Uint64(b[24:]),
	}, nil
}
