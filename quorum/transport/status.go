package transport

import (
	"iter"
	"slices"
	"sort"
	"time"
)

// PeerStatus is what is known of one peer. Counts are since the peer was set.
type PeerStatus struct {
	ID        uint64
	Addresses []string
	// Former are where else it is looked for.
	Former []string
	// Program is name and version that the peer gave at the last handshake; "" if there is no stream.
	Program string
	// Level is the highest feature level that the program of the peer can do, as of the last handshake; 0 if there is
	// no stream. LevelAgreed is that of AgreedLevel.
	Level, LevelAgreed uint16
	// Out and In say whether the outgoing and the incoming stream are up, and since when; zero if not.
	Out, In           bool
	OutSince, InSince time.Time
	// Address is the one that the outgoing stream leads to, At the one of the listener that the incoming one came to.
	Address, At string
	// Bytes are those on the stream, without TLS and handshakes; frames are those handed on or written.
	BytesOut, BytesIn, FramesOut, FramesIn int64
	// Drops are frames that Send refused, or that were lost before they were written.
	Drops int64
	// QueueBytes is what waits to be written or is being written.
	QueueBytes int
	// LastError is why a stream broke last or could not be made; nil if that has not been.
	LastError     error
	LastErrorTime time.Time
}

// statusOf returns the status of each peer, ascending by id.
func statusOf(peers iter.Seq[*peer]) []PeerStatus {
	all := []PeerStatus{}
	for p := range peers {
		all = append(all, p.status())
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all
}

// status returns what is known of the peer.
func (p *peer) status() PeerStatus {
	bytes, drops := p.queue.size()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PeerStatus{
		ID: p.id, Addresses: slices.Clone(p.addresses), Former: p.elsewhereLocked(),
		BytesOut: p.bytesOut.Load(), BytesIn: p.bytesIn.Load(),
		FramesOut: p.framesOut.Load(), FramesIn: p.framesIn.Load(),
		Drops: drops, QueueBytes: bytes,
		LevelAgreed: uint16(p.agreed.Load()), //nolint:gosec // noteLevels stores 16 bits
		LastError:   p.lastErr, LastErrorTime: p.lastErrAt,
	}
	if in := p.incoming; in != nil {
		s.In, s.InSince, s.Program, s.At, s.Level = true, in.since, in.name, in.at, in.levels.able
	}
	if out := p.outgoing; out != nil {
		s.Out, s.OutSince, s.Program, s.Address = true, out.since, out.name, out.address
		s.Level = out.levels.able
	}
	return s
}
