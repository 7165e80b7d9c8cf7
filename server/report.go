package server

import (
	"encoding/binary"
	"log/slog"

	"zkd/jute"
)

// reporter is a Node of a group of several.
type reporter interface {
	// Report sends what encode appends to the leader's Heard; false if there is no leader, or no way to it now.
	Report(encode func(b []byte) []byte) bool
}

// reportVersion is the first byte of a report; behind it is each session's id, 8 bytes, the highest first.
const reportVersion = 1

// report tells the leader which sessions were heard. The tracker calls it.
func (s *Server) report(ids []jute.SessionID) bool {
	node, ok := s.opts.node.(reporter)
	return ok && node.Report(func(b []byte) []byte {
		b = append(b, reportVersion)
		for _, id := range ids {
			b = binary.BigEndian.AppendUint64(b, uint64(id))
		}
		return b
	})
}

// heardBatch is how many sessions of a report are touched at a time: a guess that fits on a stack.
const heardBatch = 128

// Heard takes the sessions that another server has heard. body is only read, and not kept. One that cannot be read is
// logged and ignored: the sessions in it have the rest of their timeouts to be heard again.
func (s *Server) Heard(from uint64, body []byte) {
	tracker := s.tracker.Load()
	if tracker == nil {
		return
	}
	if len(body) == 0 || body[0] != reportVersion || (len(body)-1)%8 != 0 {
		version := -1
		if len(body) > 0 {
			version = int(body[0])
		}
		s.bad.Warn("malformed session report from peer",
			slog.Uint64("from", from), slog.Int("version", version), slog.Int("bytes", len(body)))
		return
	}
	var ids [heardBatch]jute.SessionID
	n := 0
	for body = body[1:]; len(body) > 0; body = body[8:] {
		ids[n] = jute.SessionID(binary.BigEndian.Uint64(body))
		if n++; n == len(ids) {
			tracker.TouchAll(ids[:])
			n = 0
		}
	}
	tracker.TouchAll(ids[:n])
}

// Forwarded takes the sessions whose writes another server has forwarded to this one, which leads: their clients are
// alive, however long its own disk takes until it applies what the others have acknowledged.
func (s *Server) Forwarded(ids []jute.SessionID) {
	if tracker := s.tracker.Load(); tracker != nil {
		tracker.TouchAll(ids)
	}
}
