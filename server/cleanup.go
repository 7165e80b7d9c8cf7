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

// Bounds of the search for containers that may go: there may be any number that were never used, of which each round
// looks at all. By measurement (2026-11): some 2 ms, then a pause that leaves the others nine tenths of a processor.
const (
	searchContainers = 512
	searchPause      = 20 * time.Millisecond
)

// removeOverdue makes one round, no faster than ContainerMaxPerMinute, and ends it when this server leads no more. It
// returns how many proposals were refused, and why the last one was: the next round finds those znodes again.
func (s expirer) removeOverdue() (refused int, err error) {
	gap := time.Minute / time.Duration(s.opts.ContainerMaxPerMinute)
	left := s.opts.ContainerMaxPerMinute
	for after := ""; ; s.pause(searchPause) {
		paths, next, failed := s.overdue(after, left)
		if failed != nil {
			return refused, failed
		}
		left -= len(paths)
		for _, path := range paths {
			if s.draining() || !s.available.leading.Load() {
				return refused, err
			}
			body := (&jute.PathRequest{Path: path}).Append(nil)
			p := &entry.Proposal{Op: jute.OpDeleteContainer, Time: s.millis(), Flags: s.opts.Flags, Body: body}
			if refusal := s.opts.node.Propose(p, nil); refusal != nil {
				refused, err = refused+1, refusal
			}
			s.pause(gap)
		}
		if after = next; after == "" || left <= 0 || s.draining() || !s.available.leading.Load() {
			return refused, err
		}
	}
}

// overdue searches one piece of what there is, for so many znodes at the most: behind the container after, or from the
// beginning if that is "". next is where the next piece begins; "": this was the last one.
func (s expirer) overdue(after string, most int) (paths []string, next string, err error) {
	limits := state.ExpiryLimits{Max: most, Containers: searchContainers,
		NeverUsedMillis: jute.Millis(s.opts.ContainerMaxNeverUsed.Milliseconds())}
	hold, ended := s.watchdog.beginOwn("containers")
	defer ended()
	search := s.readTurns.Scan(nil, &hold.waits)
	defer search.End()
	v := s.opts.Machine.View()
	defer v.Close()
	v.Pace(search.Pace)
	next = v.Expiring(s.writeTime(), limits, after, func(path string) { paths = append(paths, path) })
	return paths, next, v.Err()
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
