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
// of each connection without TLS.
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
	p.opts.Handler.ServeHTTP(w, r)
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
