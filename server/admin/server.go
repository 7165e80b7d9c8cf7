package admin

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	"zkd/jute"
	"zkd/server/backup"
	"zkd/server/stats"
	"zkd/server/stats/catalog"
)

// Server answers operators over HTTP.
type Server struct {
	opts Options // immutable
	port *Port
	mux  *http.ServeMux

	snapshots, restores *interval // of the commands that take and replace the whole state

	lastSnapshot atomic.Pointer[taken]
	counts       struct {
		insecure, snapshotErrors, restoreErrors, snapshotsLimited, restoresLimited stats.Counter
		restore                                                                    stats.Histogram
	}

	mu struct {
		sync.Mutex
		observers map[uint64]Observer // what was reset
	}
}

// taken is a snapshot that was taken.
type taken struct {
	zxid jute.Zxid
	at   int64 // seconds
}

// ConsolePath is where the console is; the root leads there.
const ConsolePath = "/console/"

// Bounds of what a client may ask for: guesses.
const (
	headerBytesMax = 64 << 10
	connectionsMax = 256
	answerBytes    = 32 << 10 // of an answer that is gathered before it is sent
)

// New returns a server.
func New(o Options) *Server {
	if o.CommandURL == "" {
		o.CommandURL = "/commands"
	}
	s := &Server{opts: o, mux: http.NewServeMux(), snapshots: newInterval(o.Clock, o.SnapshotInterval),
		restores: newInterval(o.Clock, o.RestoreInterval)}
	base := "/" + strings.Trim(o.CommandURL, "/")
	commands := http.StripPrefix(base, http.HandlerFunc(s.command))
	s.mux.Handle(base, commands)
	s.mux.Handle(base+"/", commands)
	s.mux.HandleFunc("GET /health/live", s.live)
	s.mux.HandleFunc("GET /health/ready", s.ready)
	if o.Page != nil {
		s.mux.Handle("GET /metrics", o.Page)
	}
	if o.Backups != nil {
		s.mux.Handle(backup.Path, o.Backups)
	}
	if o.Console != nil {
		s.mux.Handle(ConsolePath, o.Console)
		toConsole := http.RedirectHandler(ConsolePath, http.StatusFound)
		s.mux.Handle("GET "+strings.TrimSuffix(ConsolePath, "/"), toConsole)
		if base != "/" {
			s.mux.Handle("GET /{$}", toConsole)
		}
	}
	if o.Profiles {
		s.mux.HandleFunc("GET /debug/pprof/", s.guard(pprof.Index))
		s.mux.HandleFunc("GET /debug/pprof/cmdline", s.guard(pprof.Cmdline))
		s.mux.HandleFunc("GET /debug/pprof/profile", s.guard(pprof.Profile))
		s.mux.HandleFunc("GET /debug/pprof/symbol", s.guard(pprof.Symbol))
		s.mux.HandleFunc("GET /debug/pprof/trace", s.guard(pprof.Trace))
	}
	s.port = NewPort(PortOptions{Handler: http.HandlerFunc(s.serve), Clock: o.Clock, Logger: o.Logger,
		IdleTimeout: o.IdleTimeout, TLS: o.TLS, Unified: o.Unified, Plain: s.counts.insecure.Inc})
	return s
}

// Serve answers on l until Shutdown, or until l fails. It closes l.
func (s *Server) Serve(l net.Listener) error { return s.port.Serve(l) }

// Shutdown ends Serve. Answers under way are finished unless ctx ends before.
func (s *Server) Shutdown(ctx context.Context) error { return s.port.Shutdown(ctx) }

// ServeHTTP answers one request: for who has a listener of his own.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r) }

// serve answers one request. TRACE is not answered, as by ZooKeeper, for it shows what a proxy has added.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodTrace {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// SetMetrics sets what this server counts.
func (s *Server) SetMetrics(v *catalog.Values) {
	v.Set("insecure_admin_count", s.counts.insecure.Load())
	v.Set("snapshot_error_count", s.counts.snapshotErrors.Load())
	v.Set("snapshot_rate_limited_count", s.counts.snapshotsLimited.Load())
	v.Set("restore_error_count", s.counts.restoreErrors.Load())
	v.Set("restore_rate_limited_count", s.counts.restoresLimited.Load())
	v.SetHistogram("restore_time", &s.counts.restore)
}

// command answers what is under CommandURL; the rest of the path is the command.
func (s *Server) command(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	case http.MethodOptions:
		w.Header().Set("Allow", "GET, HEAD, POST, TRACE, OPTIONS")
		return
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		s.links(w)
		return
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		http.NotFound(w, r) // the name of nothing, and no text for an answer; ZooKeeper's web server refuses it, too
		return
	}
	c := byName[name]
	info := s.opts.Info() // once: what it lacks while the server does not serve is not asked for
	switch {
	case c == nil:
		s.refuse(w, r, http.StatusOK, name, "Unknown command: "+name)
	case c.running && !info.Serving:
		s.refuse(w, r, http.StatusOK, name, "This ZooKeeper instance is not currently serving requests")
	case !s.allowed(w, r, c, name):
	case c.post != (r.Method == http.MethodPost):
		// Quirk not kept: ZooKeeper fails with 500.
		s.refuse(w, r, http.StatusMethodNotAllowed, name, "Wrong method: "+r.Method)
	case c.stream != nil:
		c.stream(s, w, r, c)
	default:
		s.page(w, r, http.StatusOK, func(p *page) {
			ok := c.run(&call{page: p, server: s, info: info, query: r.URL.Query()})
			p.str("command", c.names[0])
			if ok {
				p.null("error")
			}
		})
	}
}

// serving reports whether the server serves clients.
func (s *Server) serving() bool { return s.opts.Info().Serving }

// links writes a link to each command.
func (s *Server) links(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html;charset=utf-8")
	base := html.EscapeString("/" + strings.Trim(s.opts.CommandURL, "/") + "/")
	for _, c := range commands {
		if c.own {
			continue
		}
		_, _ = fmt.Fprintf(w, "<a href=\"%s%s\">%s</a>\n<br/>\n", base, c.names[0], c.names[0]) // a client that left
	}
}

// answer answers a command that has no fields.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, status int, c *command) {
	s.page(w, r, status, func(p *page) {
		p.str("command", c.names[0])
		p.null("error")
	})
}

// refuse answers a request whose command does not run. It is called by the name it was asked by.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, name, text string) {
	s.page(w, r, status, func(p *page) {
		p.str("command", name)
		p.str("error", text)
	})
}

// page writes one JSON object.
func (s *Server) page(w http.ResponseWriter, r *http.Request, status int, fill func(*page)) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	p := &page{out: bufio.NewWriterSize(&patient{w: w, server: s}, answerBytes)}
	p.object(func() { fill(p) })
	if err := p.out.Flush(); err != nil {
		s.opts.Logger.Debug("admin client disconnected", slog.String("peer", r.RemoteAddr), slog.Any("err", err))
	}
}

// err is what has become of a page: a client that left, or does not read.
func (*Server) err(p *page) error {
	_, err := p.out.Write(nil)
	return err
}

// patient writes to a client that must take something within IdleTimeout.
type patient struct {
	w      io.Writer
	server *Server
}

// Write writes b.
func (p *patient) Write(b []byte) (int, error) {
	if rw, ok := p.w.(http.ResponseWriter); ok && p.server.opts.IdleTimeout > 0 {
		// Who cannot have a deadline is a test's recorder, which takes everything.
		_ = http.NewResponseController(rw).SetWriteDeadline(p.server.opts.Clock.Now().Add(p.server.opts.IdleTimeout))
	}
	return p.w.Write(b)
}

// live says that the process answers.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	s.health(w, r, http.StatusOK, "live")
}

// ready says whether this server serves clients, read-only too.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.serving() {
		s.health(w, r, http.StatusOK, "ready")
		return
	}
	why := "no leader, or behind it"
	if s.hangs() {
		why = "the disk does not answer"
	}
	s.health(w, r, http.StatusServiceUnavailable, why)
}

// hangs tells whether a disk of this server hangs.
func (s *Server) hangs() bool { return s.opts.DiskHangs != nil && s.opts.DiskHangs() }

func (s *Server) health(w http.ResponseWriter, r *http.Request, status int, text string) {
	s.page(w, r, status, func(p *page) {
		p.str("status", text)
		info := s.opts.Info()
		if mode := info.Mode; mode != "" {
			p.str("mode", mode)
		}
		own, group := "", ""
		if s.opts.DiskSpace != nil {
			own, group = s.opts.DiskSpace()
		}
		if s.hangs() {
			own = "does not answer"
		}
		if own != "" {
			p.str("disk", own)
		}
		if group != "" {
			p.str("disks", group)
		}
		if missing := info.MissingVoters; missing != "" {
			p.str("awaited", missing)
		}
	})
}
