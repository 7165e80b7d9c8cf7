package hostile

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"slices"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Purposes of a connection between servers; docs/formats/peer.md draws this and all that is made here.
const (
	ForMessages byte = 1
	ForSnapshot byte = 2
	ForCluster  byte = 3
)

// castagnoli is the polynomial of all checksums between servers.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the checksum of parts.
func sum(parts ...[]byte) uint32 {
	s := uint32(0)
	for _, part := range parts {
		s = crc32.Update(s, castagnoli, part)
	}
	return s
}

// helloHead is how many bytes of a hello come before what its length counts.
const helloHead = 14

// Hello is what a server says first, to another one and maybe in the name of a third.
func Hello(from, to, process uint64, purpose byte) []byte {
	b := append([]byte{0xF5}, "zkdpeer"...)
	b = append(b, 0, 1, 0, 3, 0, 0)
	b = append(b, make([]byte, 16)...) // the cluster: not known
	b = binary.BigEndian.AppendUint64(b, from)
	b = binary.BigEndian.AppendUint64(b, to)
	b = binary.BigEndian.AppendUint64(b, process)
	b = append(b, purpose, 0, 0, 0) // no name, no founders
	return sealed(append(b, 0, 99, 0, 99, 0, 1))
}

// sealed gives a hello its length and its checksum.
func sealed(b []byte) []byte {
	binary.BigEndian.PutUint16(b[helloHead-2:], uint16(len(b)-helloHead+4)) //nolint:gosec // short
	return binary.BigEndian.AppendUint32(b, sum(b))
}

// SnapshotMessage is one of a snapshot stream.
func SnapshotMessage(kind byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body))) //nolint:gosec // short
	b = binary.BigEndian.AppendUint32(b, sum([]byte{kind}, body))
	return append(b, body...)
}

// SnapshotHeader is that of a state of an entry in a term.
func SnapshotHeader(from, to, term, index uint64) ([]byte, error) {
	return proto.Marshal(&raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), From: &from, To: &to, Term: &term,
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
			Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}},
		}},
	})
}

// snapshotPiece is how much of a file is in one message.
const snapshotPiece = 1 << 18

// Snapshot is a stream of a state that is one file: the manifest, and each piece.
func Snapshot(header []byte, name string, content []byte) (messages [][]byte) {
	m := binary.BigEndian.AppendUint32([]byte{0, 1}, uint32(len(header))) //nolint:gosec // short
	m = binary.BigEndian.AppendUint32(append(m, header...), 1)
	m = append(append(m, byte(len(name))), name...)
	m = binary.BigEndian.AppendUint64(m, uint64(len(content)))
	m = binary.BigEndian.AppendUint64(m, xxhash.Sum64(content))
	messages = append(messages, SnapshotMessage(1, m))
	offset := uint64(0)
	for part := range slices.Chunk(content, snapshotPiece) {
		piece := binary.BigEndian.AppendUint64(make([]byte, 4), offset)
		messages = append(messages, SnapshotMessage(3, append(piece, part...)))
		offset += uint64(len(part))
	}
	return messages
}

// opening begins a proof with the secret that nobody has told.
func opening(from, to uint64, purpose byte, random *rand.Rand) []byte {
	b := append([]byte{0xF5}, "zkdauth"...)
	b = append(b, 1, 1, 0, 8+8+1+32)
	b = binary.BigEndian.AppendUint64(b, from)
	b = append(binary.BigEndian.AppendUint64(b, to), purpose)
	return appendNoise(b, 32, random)
}

// appendNoise adds n random bytes.
func appendNoise(b []byte, n int, random *rand.Rand) []byte {
	for range n {
		b = append(b, byte(random.Uint32()))
	}
	return b
}

// PeerStreams makes what strangers send to the ports for servers: proofs, hellos, snapshot streams and frames, forged
// in the name of servers and damaged. The same seed gives the same. It belongs to one goroutine.
type PeerStreams struct {
	random *rand.Rand
	damage *Mutator
}

// NewPeerStreams returns streams from a seed.
func NewPeerStreams(seed uint64) (*PeerStreams, error) {
	s := &PeerStreams{random: rand.New(rand.NewPCG(seed, 7))} //nolint:gosec // it is to come again
	header, err := SnapshotHeader(1, 2, 1000, 1<<40)
	if err != nil {
		return nil, err
	}
	parts := append(Snapshot(header, "000001.sst", make([]byte, 3000)), Hello(1, 2, 3, ForMessages), header)
	framed := make([][]byte, 0, len(parts))
	for _, part := range parts {
		framed = append(framed, append(make([]byte, 4), part...))
	}
	s.damage = NewMutator(framed, seed)
	return s, nil
}

// damaged returns b with changes.
func (s *PeerStreams) damaged(b []byte) []byte { return s.damage.change(slices.Clone(b)) }

// Connection is all that is sent on one connection, in the name of from to the server to.
func (s *PeerStreams) Connection(from, to uint64) ([]byte, error) {
	purpose := byte(1 + s.random.IntN(4)) // one of them is unknown
	var b []byte
	if s.random.IntN(4) == 0 {
		proof := opening(from, to, purpose, s.random)
		if s.random.IntN(2) == 0 {
			proof = s.damaged(proof)
		}
		b = appendNoise(append(append(b, proof...), 0, 0, 32), 32, s.random) // and a proof
	}
	hello := Hello(from, to, s.random.Uint64(), purpose)
	switch s.random.IntN(3) {
	case 0:
		hello = s.damaged(hello)
	case 1:
		if body := s.damaged(hello[helloHead : len(hello)-4]); len(body) < 20<<10 {
			hello = sealed(append(slices.Clone(hello[:helloHead]), body...))
		}
	}
	b = append(b, hello...)
	if s.random.IntN(2) == 0 {
		return s.appendSnapshot(b, from, to)
	}
	return s.appendFrames(b), nil
}

// appendSnapshot adds a forged or damaged snapshot stream.
func (s *PeerStreams) appendSnapshot(b []byte, from, to uint64) ([]byte, error) {
	header, err := SnapshotHeader(from, to, 1+s.random.Uint64N(4), 1+s.random.Uint64N(1<<40))
	if err != nil {
		return nil, err
	}
	messages := Snapshot(header, "000001.sst", make([]byte, s.random.IntN(4000)))
	for _, m := range messages {
		switch s.random.IntN(3) {
		case 0:
			m = s.damaged(m)
		case 1: // with the right checksum
			m = SnapshotMessage(m[0], s.damaged(m[9:]))
		}
		b = append(b, m...)
	}
	return b, nil
}

// appendFrames adds frames whose checksums are right, but for some.
func (s *PeerStreams) appendFrames(b []byte) []byte {
	for range 1 + s.random.IntN(4) {
		content := append([]byte{byte(s.random.IntN(20))}, s.damage.Append(nil)[4:]...)
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(content))) //nolint:gosec // short
		frame = append(binary.BigEndian.AppendUint32(frame, sum(content)), content...)
		if s.random.IntN(4) == 0 {
			frame = s.damaged(frame)
		}
		b = append(b, frame...)
	}
	return b
}
