package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"zkd/conf"
	"zkd/conf/keystore"
	"zkd/server"
	"zkd/server/auth"
	"zkd/server/instance/peers"
	"zkd/server/instance/tlsstores"
)

// movable is a listener that may be closed more than once: when the port for clients moves, and at the end.
type movable struct {
	net.Listener
	port *server.Port
	once sync.Once
	err  error
}

// Close closes the listener, once.
func (m *movable) Close() error {
	m.once.Do(func() { m.err = m.Listener.Close() })
	return m.err
}

// address is where a port is; nil has none.
func (m *movable) address() string {
	if m == nil {
		return ""
	}
	return m.Addr().String()
}

// openClientPorts opens the ports for clients: the one for plain text, unless there is only one for TLS, and that.
func (i *Instance) openClientPorts(ctx context.Context) (err error) {
	c := &i.config.Client
	if c.Addr != "" || c.SecureAddr == "" {
		if i.client, err = i.listenClients(ctx, c.Addr); err != nil {
			return err
		}
		i.first = i.client.Addr()
	}
	if c.SecureAddr == "" {
		return nil
	}
	l, err := i.world.Network.Listen(ctx, c.SecureAddr, c.Backlog)
	if err != nil {
		return fmt.Errorf("%s: %w", purpose(secureClientKey), err)
	}
	i.secure = &movable{Listener: l, port: &i.ports.secure}
	return nil
}

// listenClients opens a port for clients.
func (i *Instance) listenClients(ctx context.Context, addr string) (*movable, error) {
	l, err := i.world.Network.Listen(ctx, addr, i.config.Client.Backlog)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", purpose(clientKey), err)
	}
	return &movable{Listener: l, port: &i.ports.plain}, nil
}

// clientPorts are what clients speak on the two ports for them.
type clientPorts struct {
	plain, secure server.Port
	stores        *keystore.Set // nil without TLS
}

// newClientPorts reads the stores for clients, if they may use TLS.
func newClientPorts(c *conf.Config, registry *auth.Registry, from tlsstores.Source, logger *slog.Logger) (
	*clientPorts, error,
) {
	p := &clientPorts{secure: server.Port{Secure: true}}
	if !c.ClientTLS() {
		return p, nil
	}
	var err error
	if p.stores, err = from.OpenFor(c.TLS.Client, "ssl.", "clients", true, logger); err != nil {
		return nil, err
	}
	config := p.stores.Server()
	identity, _ := registry.Provider(auth.SchemeX509).(auth.Certifier)
	p.secure.TLS, p.secure.Identity = config, identity
	p.plain.CountPlain = true
	if c.Client.PortUnification {
		p.plain = server.Port{TLS: config, Plain: true, CountPlain: true, Identity: identity,
			DetectionTimeout: c.TLS.Client.HandshakeDetection}
	}
	return p, nil
}

// served is the end of one listener.
type served struct {
	listener *movable
	err      error
}

// serveClients takes connections from l; ended is told the end.
func (i *Instance) serveClients(l *movable, ended chan<- served) {
	if l == nil {
		return
	}
	i.running.Go(func() {
		err := i.server.ServePort(l, l.port)
		select {
		case ended <- served{l, err}:
		case <-i.done: // nobody listens any more
		}
	})
}

// moveRetry is how often a port that is taken is tried again. A guess: who has it may be about to stop.
const moveRetry = 2 * time.Second

// moveClients has clients connect to the port that is wanted from now on. Those that are connected stay, as with
// ZooKeeper (NIOServerCnxnFactory.reconfigure). If it cannot be opened, the present one stays, and it is tried again.
// Another name of the address where clients are served is no move.
func (i *Instance) moveClients(ctx context.Context, ended chan<- served) {
	addr := i.wanted
	if i.client != nil && peers.ListensAt(i.world.Network, i.client.Addr(), addr) {
		i.retry = nil
		return
	}
	if i.client != nil && peers.Widens(i.client.Addr(), addr) {
		i.widenClients(ctx, ended)
		return
	}
	l, err := i.listenClients(ctx, addr)
	if err != nil {
		if i.retry == nil {
			i.logger.Error("client port not moved yet: cannot listen on the new address",
				slog.String("client", addr), slog.Any("err", err))
		}
		i.retry = i.world.Clock.NewTimer(moveRetry).C()
		return
	}
	i.serveMoved(l, ended)
}

// widenClients has clients connect to all addresses of the machine where they connect to one, on the same port: the
// system opens it only when the present one is closed. If it does not, the present one is opened again.
func (i *Instance) widenClients(ctx context.Context, ended chan<- served) {
	before := i.client.address()
	if err := i.client.Close(); err != nil {
		i.logger.Warn("failed to close the previous client port", slog.Any("err", err))
	}
	i.client = nil
	l, err := i.listenClients(ctx, i.wanted)
	if err != nil {
		i.logger.Error("client port not moved: cannot listen on the new address",
			slog.String("client", i.wanted), slog.Any("err", err))
		l, err = i.listenClients(ctx, before)
	}
	if err != nil { // somebody was quick
		i.retry = i.world.Clock.NewTimer(moveRetry).C()
		return
	}
	i.serveMoved(l, ended)
}

// serveMoved serves clients at l, and not where they were served before.
func (i *Instance) serveMoved(l *movable, ended chan<- served) {
	i.retry = nil
	i.logger.Info("client port moved", slog.String("client", l.address()))
	i.serveClients(l, ended)
	if i.client != nil {
		if err := i.client.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			i.logger.Warn("failed to close the previous client port", slog.Any("err", err))
		}
	}
	i.client = l
	i.port.Store(int64(portOf(l.Addr().String())))
}

// clientPort is where clients connect now.
func (i *Instance) clientPort() int {
	if port := i.port.Load(); port != 0 {
		return int(port)
	}
	return portOf(i.config.Client.Addr)
}
