package server

import (
	"log/slog"
	"time"

	"zkd/jute"
	"zkd/storage"
)

// cleanUp proposes, at every interval, the end of containers without children and of TTL znodes that are overdue
// (org.apache.zookeeper.server.ContainerManager). Apply looks again whether each may go.
func (s *Server) cleanUp() {
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
		if err := s.removeOverdue(); err != nil {
			s.opts.Logger.Warn("cannot remove containers and TTL znodes", slog.Any("err", err))
			return
		}
	}
}

// removeOverdue makes one round, no faster than ContainerMaxPerMinute.
func (s *Server) removeOverdue() error {
	var paths []string
	limits := storage.ExpiryLimits{Max: s.opts.ContainerMaxPerMinute,
		NeverUsedMillis: jute.Millis(s.opts.ContainerMaxNeverUsed.Milliseconds())}
	v := s.opts.Machine.View()
	v.Expiring(s.millis(), limits, func(path string) { paths = append(paths, path) })
	err := v.Err()
	v.Close()
	if err != nil {
		return err
	}
	gap := time.Minute / time.Duration(s.opts.ContainerMaxPerMinute)
	for _, path := range paths {
		body := (&jute.PathRequest{Path: path}).Append(nil)
		p := &storage.Proposal{Op: jute.OpDeleteContainer, Time: s.millis(), Flags: s.opts.Flags, Body: body}
		if err := s.opts.node.Propose(p, nil); err != nil {
			return err
		}
		if s.pause(gap); s.draining() {
			return nil
		}
	}
	return nil
}
