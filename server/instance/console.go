package instance

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"zkd/jute"
	"zkd/jute/client"
	"zkd/server"
	"zkd/server/admin"
	"zkd/server/auth"
	"zkd/server/backup"
	"zkd/server/console"
	"zkd/server/console/survey"
	"zkd/server/fourletter"
	"zkd/server/instance/snapshots"
	"zkd/server/traffic/report"
	"zkd/storage/ensemble"
	"zkd/storage/serverid"
)

// consoleName is what the console calls the ensemble of this server in addresses of pages.
const consoleName = "ensemble"

// uploadSuffix makes the directory of backups that are uploaded from the state's, beside which it is.
const uploadSuffix = ".uploads"

// consoleHost is what the console has of a server.
type consoleHost struct{ *Instance }

// open makes the console of this server, whose sessions come over a port that nobody else has.
func (i consoleHost) open(o *admin.Options, backups *backup.Handler) (err error) {
	inside := newInside()
	here := &console.Here{
		Name: "this server", Info: i.server.Info, Journal: i.journal,
		EndSession: i.server.EndSession,
		Connect: func(remote netip.AddrPort, cert *x509.Certificate) client.DialFunc {
			return func(ctx context.Context, _, _ string) (net.Conn, error) {
				return inside.dial(ctx, &from{remote: net.TCPAddrFromAddrPort(remote), cert: cert})
			}
		},
		WhoAmI: func(ids []jute.ID) []jute.ClientInfo { return i.registry.WhoAmI(nil, ids) },
		// Whom the port for plain text does not serve the console does not either.
		Closed: i.config.Client.Addr == "" && i.config.Client.SecureAddr != "",
		Operators: func(r *http.Request) bool {
			return o.Anywhere || o.NeedCertificate && r.TLS != nil && len(r.TLS.PeerCertificates) > 0
		},
	}
	port := &server.Port{Certified: func(nc net.Conn) *x509.Certificate { return nc.(*from).cert }}
	if identity, ok := i.registry.Provider(auth.SchemeX509).(auth.Certifier); ok && o.NeedCertificate {
		port.Identity = identity
		here.Certificate = func(r *http.Request) *x509.Certificate {
			if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 { // what is there was verified: it is demanded
				return nil
			}
			return r.TLS.PeerCertificates[0]
		}
	}
	here.Top = i.top
	if i.peers != nil {
		here.HandOver = i.node.TransferLeadership
	}
	here.Backup = backups.Serve
	if o.Restorer != nil {
		here.Uploads, err = snapshots.NewUploads(snapshots.UploadOptions{FS: i.world.FS, Machine: i.machine,
			Dir: i.dir.StateDir() + uploadSuffix,
			Replace: func(ctx context.Context, peer string, snapshot io.Reader) (jute.Zxid, error) {
				return i.admin.Replace(ctx, peer, snapshot)
			}})
		if err != nil {
			return err
		}
	}
	_, adminPort, _ := net.SplitHostPort(i.config.Admin.Addr) // conf has joined it
	asker := survey.Asker{AdminURL: o.CommandURL}
	if o.TLS == nil || o.Unified {
		_, _ = fmt.Sscan(adminPort, &asker.AdminPort) // what is no number is not asked at
	}
	i.console, err = console.New(console.Options{
		Clock: i.world.Clock, Logger: i.logger, Random: i.world.Random, ReadOnly: i.config.Admin.ConsoleReadOnly,
		Version: i.build(),
		Ensembles: []console.Ensemble{{
			Name: consoleName, Places: i.places, Asker: asker, Here: here,
			Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
				return i.world.Network.Dial(ctx, address, false)
			},
		}},
	})
	if err != nil {
		return err
	}
	o.Console = i.console
	i.running.Go(func() {
		if err := i.server.ServePort(inside, port); err != nil { // it ends with the server
			i.logger.Error("console port failed: restart", slog.Any("err", err))
		}
	})
	return nil
}

// places are the servers of the ensemble as this one knows them.
func (i consoleHost) places() []survey.Place {
	own := survey.Place{Addr: i.client.address(), Figures: i.shownFigures}
	if i.peers == nil {
		if own.Addr == "" {
			own.Addr = i.secure.address()
		}
		return []survey.Place{own}
	}
	m := i.peers.Describe()
	var all []survey.Place
	for n := range m.Servers {
		s := &m.Servers[n]
		p := survey.Place{ID: fmt.Sprint(serverid.Number(s.ID)), Addr: i.clientAddr(s), Role: "participant"}
		if s.Observer {
			p.Role = "observer"
		}
		if s.ID == m.ID {
			p.Figures = i.shownFigures
		}
		all = append(all, p)
	}
	return all
}

// clientAddr is where a member's clients are. One whose line does not say is taken to have them at the port of this
// server's.
func (i consoleHost) clientAddr(s *ensemble.Server) string {
	host, port, err := net.SplitHostPort(s.ClientAddr)
	if err != nil {
		if i.clientPort() == 0 {
			return ""
		}
		host, port = "", fmt.Sprint(i.clientPort())
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = s.Addresses[0].Host
	}
	addr := net.JoinHostPort(host, port)
	if s.ClientAddr == "" && s.ID != i.id && addr == i.client.address() { // a guess that cannot be right
		return ""
	}
	return addr
}

// errNotCounted is said where the configuration has it so.
var errNotCounted = errors.New("requests are not counted: zkd.traffic=false")

// top is who has done what at this server in the last seconds.
func (i consoleHost) top(seconds int) (*report.Answer, error) {
	w := i.server.Traffic(time.Duration(seconds) * time.Second)
	if w == nil {
		return nil, errNotCounted
	}
	a := report.Of(w, report.RowsMax)
	a.Server = report.StateOf(i.server.Info(), serverid.Number(i.id))
	return a, nil
}

// shownFigures is what mntr says of this server.
func (i consoleHost) shownFigures() (survey.Figures, error) {
	info := i.server.Info()
	if !info.Serving {
		return nil, survey.NotServing(info.MissingVoters)
	}
	found := survey.Figures{}
	i.commands.Figures(info, func(f *fourletter.Figure) { found[f.Name] = f.String() })
	return found, nil
}

// inside is the port of sessions within the process.
type inside struct {
	come chan net.Conn // unbuffered: whom nobody takes any more gives up
	down chan struct{} // closed by Close
	once sync.Once
}

func newInside() *inside { return &inside{come: make(chan net.Conn), down: make(chan struct{})} }

// Accept implements net.Listener.
func (l *inside) Accept() (net.Conn, error) {
	select {
	case c := <-l.come:
		return c, nil
	case <-l.down:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *inside) Close() error {
	l.once.Do(func() { close(l.down) })
	return nil
}

// Addr implements net.Listener.
func (*inside) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv6loopback} }

// dial connects. To the server the client is at f.remote, so that its ACLs and its limits hold for that address.
func (l *inside) dial(ctx context.Context, f *from) (net.Conn, error) {
	own, server := net.Pipe()
	f.Conn = server
	select {
	case l.come <- f:
		return own, nil
	case <-l.down:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// from is the server's end of a connection from within.
type from struct {
	net.Conn

	remote net.Addr
	cert   *x509.Certificate // that the visitor has proven; nil for none
}

// RemoteAddr is the address of the visitor.
func (f *from) RemoteAddr() net.Addr { return f.remote }
