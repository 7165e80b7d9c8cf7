package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
)

// movable is a listener that may be closed more than once: when the port for clients moves, and at the end.
type movable struct {
	net.Listener
	once sync.Once
	err  error
}

// Close closes the listener, once.
func (m *movable) Close() error {
	m.once.Do(func() { m.err = m.Listener.Close() })
	return m.err
}

// listenClients opens a port for clients.
func (i *instance) listenClients(ctx context.Context, addr string) (*movable, error) {
	l, err := listen(ctx, addr, i.config.Client.Backlog, i.logger)
	if err != nil {
		return nil, fmt.Errorf("listen for clients (clientPort, clientPortAddress): %w", err)
	}
	return &movable{Listener: l}, nil
}

// served is the end of one listener.
type served struct {
	listener *movable
	err      error
}

// serveClients takes connections from l; ended is told the end.
func (i *instance) serveClients(l *movable, ended chan<- served) {
	go func() {
		err := i.server.Serve(l)
		select {
		case ended <- served{l, err}:
		case <-i.done: // nobody listens any more
		}
	}()
}

// moveClients has clients connect to another port from now on. Those that are connected stay, as with ZooKeeper
// (NIOServerCnxnFactory.reconfigure). If it cannot be opened, the present one stays.
func (i *instance) moveClients(ctx context.Context, addr string, ended chan<- served) {
	l, err := i.listenClients(ctx, addr)
	if err != nil {
		i.logger.Error("the port for clients does not move to where a reconfig wants it: start this server again when "+
			"it is free", slog.String("client", addr), slog.Any("err", err))
		return
	}
	i.logger.Info("the port for clients has moved", slog.String("client", addr))
	i.serveClients(l, ended)
	if err := i.client.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		i.logger.Warn("the former port for clients does not close", slog.Any("err", err))
	}
	i.client = l
}
