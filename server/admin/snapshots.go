package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"zkd/quorum/clock"
)

// interval lets something through once in a while (org.apache.zookeeper.server.util.RateLimiter).
type interval struct {
	clock clock.Clock
	every time.Duration

	mu   sync.Mutex
	any  bool
	last time.Time
}

func newInterval(c clock.Clock, every time.Duration) *interval {
	return &interval{clock: c, every: every}
}

// allow reports whether it is time again.
func (i *interval) allow() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.clock.Now()
	if i.any && now.Sub(i.last) <= i.every {
		return false
	}
	i.any, i.last = true, now
	return true
}

// snapshot: SnapshotCommand.
func (s *Server) snapshot(w http.ResponseWriter, r *http.Request, c *command) {
	if s.opts.Snapshots == nil {
		s.answer(w, r, http.StatusServiceUnavailable, c)
		return
	}
	if !s.limit[c].allow() {
		s.counts.snapshotsLimited.Inc()
		s.answer(w, r, http.StatusTooManyRequests, c)
		return
	}
	streaming := true
	if text, ok := r.URL.Query()["streaming"]; ok {
		streaming = strings.EqualFold(text[0], "true")
	}
	snap, err := s.opts.Snapshots.Take(r.Context(), !streaming)
	if err != nil {
		s.snapshotFailed(w, r, c, err)
		return
	}
	defer func() { _ = snap.Body.Close() }() // it was only read
	s.lastSnapshot.Store(&taken{zxid: snap.Zxid, at: s.opts.Clock.Now().Unix()})
	// ZooKeeper's names, which Set would change.
	w.Header()["last_zxid"] = []string{hexZxid(snap.Zxid)}
	w.Header()["snapshot_size"] = []string{strconv.FormatInt(snap.Bytes, 10)}
	if !streaming {
		s.answer(w, r, http.StatusOK, c)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(snap.Bytes, 10)) // so that the client knows whether it has all
	// With less than it was told the client sees that the connection breaks off.
	if _, err := io.Copy(&patient{w: w, server: s}, snap.Body); err != nil {
		s.counts.snapshotErrors.Inc()
		s.opts.Logger.Warn("admin snapshot transfer failed", slog.String("peer", r.RemoteAddr), slog.Any("err", err))
	}
}

// snapshotFailed answers that there is none.
func (s *Server) snapshotFailed(w http.ResponseWriter, r *http.Request, c *command, err error) {
	s.counts.snapshotErrors.Inc()
	s.opts.Logger.Error("admin snapshot failed", slog.String("peer", r.RemoteAddr), slog.Any("err", err))
	s.answer(w, r, http.StatusInternalServerError, c)
}

// restore: RestoreCommand.
//
// Deviation: ZooKeeper replaces the tree of this server alone, which then differs from the others' and goes back in
// zxid, and what is wrong with a snapshot is only in its log.
func (s *Server) restore(w http.ResponseWriter, r *http.Request, c *command) {
	if s.opts.Restorer == nil {
		s.answer(w, r, http.StatusServiceUnavailable, c)
		return
	}
	if !s.limit[c].allow() {
		s.counts.restoresLimited.Inc()
		s.answer(w, r, http.StatusTooManyRequests, c)
		return
	}
	begun := s.opts.Clock.Now()
	body := &patientBody{body: r.Body, w: w, server: s}
	zxid, err := s.opts.Restorer.Restore(context.WithoutCancel(r.Context()), body)
	if err != nil {
		s.counts.restoreErrors.Inc()
		s.opts.Logger.Error("admin restore failed", slog.String("peer", r.RemoteAddr),
			slog.Any("err", err))
		s.refuse(w, r, http.StatusInternalServerError, c.names[0], err.Error())
		return
	}
	took := s.opts.Clock.Since(begun)
	s.counts.restore.Add(took.Milliseconds())
	s.opts.Logger.Warn("admin restore finished: state replaced", slog.String("peer", r.RemoteAddr),
		slog.String("zxid", hexZxid(zxid)), slog.Duration("took", took))
	s.page(w, r, http.StatusOK, func(p *page) {
		p.num("last_zxid", int64(zxid))
		p.str("command", c.names[0])
		p.null("error")
	})
}

// patientBody reads from a client that must send something within IdleTimeout.
type patientBody struct {
	body   io.Reader
	w      http.ResponseWriter
	server *Server
}

// Read implements io.Reader.
func (p *patientBody) Read(b []byte) (int, error) {
	idle := p.server.opts.IdleTimeout
	if idle <= 0 {
		return p.body.Read(b)
	}
	// Who cannot have a deadline is a test's recorder, whose body is there.
	control := http.NewResponseController(p.w)
	_ = control.SetReadDeadline(p.server.opts.Clock.Now().Add(idle))
	n, err := p.body.Read(b)
	if errors.Is(err, io.EOF) { // the answer may take longer
		_ = control.SetReadDeadline(time.Time{})
	}
	return n, err
}
