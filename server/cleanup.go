package server

import (
	"log/slog"
	"time"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/state"
)

// cleanUp proposes, at every interval, the end of containers without children and of TTL znodes that are overdue
// (org.apache.zookeeper.server.ContainerManager). Apply looks again whether each may go.
func (s expirer) cleanUp() {
	ticker := s.opts.Clock.NewTicker(s.opts.ContainerCheck)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C():
		}
		if !s.available.leading.Load() { // one server does it for all
			continue
		}
		if refused, err := s.removeOverdue(); err != nil {
			s.opts.Logger.Warn("failed to remove expired containers and TTL znodes", slog.Int("refused", refused),
				slog.Any("err", err))
		}
	}
}

// removeOverdue makes one round, no faster than ContainerMaxPerMinute, and ends it when this server leads no more. It
// returns how many proposals were refused, and why the last one was: the next round finds those znodes again.
func (s expirer) removeOverdue() (refused int, err error) {
	var paths []string
	limits := state.ExpiryLimits{Max: s.opts.ContainerMaxPerMinute,
		NeverUsedMillis: jute.Millis(s.opts.ContainerMaxNeverUsed.Milliseconds())}
	hold, ended := s.watchdog.beginOwn("containers")
	search := s.readTurns.Scan(nil, &hold.waits)
	v := s.opts.Machine.View()
	v.Pace(search.Pace)
	v.Expiring(s.writeTime(), limits, func(path string) { paths = append(paths, path) })
	err = v.Err()
	v.Close()
	search.End()
	ended()
	if err != nil {
		return 0, err
	}
	gap := time.Minute / time.Duration(s.opts.ContainerMaxPerMinute)
	for _, path := range paths {
		if s.draining() || !s.available.leading.Load() {
			break
		}
		body := (&jute.PathRequest{Path: path}).Append(nil)
		p := &entry.Proposal{Op: jute.OpDeleteContainer, Time: s.millis(), Flags: s.opts.Flags, Body: body}
		if refusal := s.opts.node.Propose(p, nil); refusal != nil {
			refused, err = refused+1, refusal
		}
		s.pause(gap)
	}
	return refused, err
}

// timekeeper is a Node that knows the time that the leader gives to writes.
type timekeeper interface{ Time() jute.Millis }

// writeTime is the time of day by which znodes are dated, if this server leads: their ends are looked for by no other.
func (s expirer) writeTime() jute.Millis {
	if node, ok := s.opts.node.(timekeeper); ok {
		return node.Time()
	}
	return s.millis()
}
