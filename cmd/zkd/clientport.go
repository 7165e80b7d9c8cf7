package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"zkd/quorum/clock"
	"zkd/server"
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
func (i *instance) openClientPorts(ctx context.Context) (err error) {
	c := &i.config.Client
	if c.Addr != "" || c.SecureAddr == "" {
		if i.client, err = i.listenClients(ctx, c.Addr); err != nil {
			return err
		}
	}
	if c.SecureAddr == "" {
		return nil
	}
	l, err := listen(ctx, c.SecureAddr, c.Backlog, i.logger)
	if err != nil {
		return fmt.Errorf("listen for clients (secureClientPort, secureClientPortAddress): %w", err)
	}
	i.secure = &movable{Listener: l, port: &i.ports.secure}
	return nil
}

// listenClients opens a port for clients.
func (i *instance) listenClients(ctx context.Context, addr string) (*movable, error) {
	l, err := listen(ctx, addr, i.config.Client.Backlog, i.logger)
	if err != nil {
		return nil, fmt.Errorf("listen for clients (clientPort, clientPortAddress): %w", err)
	}
	return &movable{Listener: l, port: &i.ports.plain}, nil
}

// served is the end of one listener.
type served struct {
	listener *movable
	err      error
}

// serveClients takes connections from l; ended is told the end.
func (i *instance) serveClients(l *movable, ended chan<- served) {
	if l == nil {
		return
	}
	go func() {
		err := i.server.ServePort(l, l.port)
		select {
		case ended <- served{l, err}:
		case <-i.done: // nobody listens any more
		}
	}()
}

// moveRetry is how often a port that is taken is tried again. A guess: who has it may be about to stop.
const moveRetry = 2 * time.Second

// moveClients has clients connect to the port that is wanted from now on. Those that are connected stay, as with
// ZooKeeper (NIOServerCnxnFactory.reconfigure). If it cannot be opened, the present one stays, and it is tried again.
func (i *instance) moveClients(ctx context.Context, ended chan<- served) {
	addr := i.wanted
	l, err := i.listenClients(ctx, addr)
	if err != nil {
		if i.retry == nil {
			i.logger.Error("the port for clients does not move yet to where a reconfig wants it: free it there, or "+
				"reconfig this server to another one", slog.String("client", addr), slog.Any("err", err))
		}
		i.retry = clock.Real().NewTimer(moveRetry).C()
		return
	}
	i.retry = nil
	i.logger.Info("the port for clients has moved", slog.String("client", addr))
	i.serveClients(l, ended)
	if i.client != nil {
		if err := i.client.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			i.logger.Warn("the former port for clients does not close", slog.Any("err", err))
		}
	}
	i.client = l
	i.port.Store(int64(portOf(l.Addr().String())))
}

// clientPort is where clients connect now.
func (i *instance) clientPort() int {
	if port := i.port.Load(); port != 0 {
		return int(port)
	}
	return portOf(i.config.Client.Addr)
}
