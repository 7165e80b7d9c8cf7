package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"zkd/quorum/clock"
)

// PortOptions says how a Port answers. TLS nil is plain HTTP alone; with Unified the port takes both, and Plain is told
// of each connection without TLS. IdleTimeout is how long a client may send nothing of a request that it has begun, or
// take nothing of an answer; 0 is for ever.
type PortOptions struct {
	Handler     http.Handler
	Clock       clock.Clock
	Logger      *slog.Logger
	IdleTimeout time.Duration
	TLS         *tls.Config
	Unified     bool
	Plain       func() // may be nil
}

// Port answers HTTP on one port, to a bounded number of clients.
type Port struct {
	opts PortOptions
	http *http.Server
}

// NewPort returns a port that is served on nothing yet.
func NewPort(o PortOptions) *Port {
	if o.Plain == nil {
		o.Plain = func() {}
	}
	p := &Port{opts: o}
	p.http = &http.Server{
		Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: o.IdleTimeout, IdleTimeout: o.IdleTimeout,
		MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return p
}

// serve answers a request. Who came by TLS shall not come without again, as Jetty tells.
func (p *Port) serve(w http.ResponseWriter, r *http.Request) {
	if r.TLS != nil {
		w.Header().Set("Strict-Transport-Security", "max-age=86400; includeSubDomains")
	}
	if p.opts.IdleTimeout > 0 {
		// net/http reads what is left of a body before it answers, without a time limit of its own. Not so where there
		// is none: it looks there whether the client has left, and a deadline would look like that.
		if r.Body != nil && r.Body != http.NoBody {
			// A connection that has no deadlines is none of a network.
			_ = http.NewResponseController(w).SetReadDeadline(p.opts.Clock.Now().Add(p.opts.IdleTimeout))
		}
		w = &answering{ResponseWriter: w, port: p}
	}
	p.opts.Handler.ServeHTTP(w, r)
}

// answering is an answer whose client must take something of it within IdleTimeout.
type answering struct {
	http.ResponseWriter
	port *Port
}

// Unwrap is for http.ResponseController.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write implements http.ResponseWriter.
func (a *answering) Write(b []byte) (int, error) {
	a.wait()
	return a.ResponseWriter.Write(b)
}

// WriteHeader implements http.ResponseWriter.
func (a *answering) WriteHeader(status int) {
	a.wait()
	a.ResponseWriter.WriteHeader(status)
}

// wait gives the client time until the next write.
func (a *answering) wait() {
	until := a.port.opts.Clock.Now().Add(a.port.opts.IdleTimeout)
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(until) // as in serve
}

// Serve answers on l until Shutdown, or until l fails. It closes l.
func (p *Port) Serve(l net.Listener) error {
	addr := l.Addr()
	l = &bounded{Listener: l, room: make(chan struct{}, connectionsMax), down: make(chan struct{})}
	switch {
	case p.opts.TLS != nil && p.opts.Unified:
		l = newUnified(l, &p.opts)
	case p.opts.TLS != nil:
		l = tls.NewListener(l, p.opts.TLS)
	}
	if err := p.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve operators on %s: %w", addr, err)
	}
	return nil
}

// Shutdown ends Serve. Answers under way are finished unless ctx ends before.
func (p *Port) Shutdown(ctx context.Context) error {
	if err := p.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("end the answers to operators: %w", err), p.http.Close())
	}
	return nil
}
