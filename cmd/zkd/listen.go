package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
)

// systemBacklog is a clientPortListenBacklog that leaves the number to the system; so does 0, as in ZooKeeper.
const systemBacklog = -1

// listen opens a port for clients. backlog is how many connections the system holds before they are accepted; the
// system may hold fewer (on Linux net.core.somaxconn).
func listen(ctx context.Context, addr string, backlog int, logger *slog.Logger) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil || backlog <= 0 {
		return l, err
	}
	if err := setBacklog(l.(*net.TCPListener), backlog, logger); err != nil {
		_ = l.Close() // it was never used
		return nil, fmt.Errorf("set the backlog (clientPortListenBacklog) to %d: %w", backlog, err)
	}
	return l, nil
}
