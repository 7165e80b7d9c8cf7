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

	"zkd/jute"
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
	if !s.snapshots.allow() {
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
	body := &patientBody{body: r.Body, w: w, server: s}
	zxid, err := s.Replace(context.WithoutCancel(r.Context()), r.RemoteAddr, body)
	switch {
	case errors.Is(err, ErrNoRestore):
		s.answer(w, r, http.StatusServiceUnavailable, c)
	case errors.Is(err, ErrRestoreLimited):
		s.answer(w, r, http.StatusTooManyRequests, c)
	case err != nil:
		s.refuse(w, r, http.StatusInternalServerError, c.names[0], err.Error())
	default:
		s.page(w, r, http.StatusOK, func(p *page) {
			p.num("last_zxid", int64(zxid))
			p.str("command", c.names[0])
			p.null("error")
		})
	}
}

// Why a restore is not even begun.
var (
	ErrNoRestore      = errors.New("restores are turned off: admin.restore.enabled=false")
	ErrRestoreLimited = errors.New("one restore is taken in admin.rateLimiterIntervalInMS: wait for its end")
)

// Replace puts a snapshot into the place of the state, as the command restore does, for a superuser at peer; whether he
// is one its caller has looked at.
func (s *Server) Replace(ctx context.Context, peer string, snapshot io.Reader) (jute.Zxid, error) {
	if s.opts.Restorer == nil {
		return 0, ErrNoRestore
	}
	if !s.restores.allow() {
		s.counts.restoresLimited.Inc()
		return 0, ErrRestoreLimited
	}
	begun := s.opts.Clock.Now()
	zxid, err := s.opts.Restorer.Restore(ctx, snapshot)
	if err != nil {
		s.counts.restoreErrors.Inc()
		s.opts.Logger.Error("admin restore failed", slog.String("peer", peer), slog.Any("err", err))
		return 0, err
	}
	took := s.opts.Clock.Since(begun)
	s.counts.restore.Add(took.Milliseconds())
	s.opts.Logger.Warn("admin restore finished: state replaced", slog.String("peer", peer),
		slog.String("zxid", hexZxid(zxid)), slog.Duration("took", took))
	return zxid, nil
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
