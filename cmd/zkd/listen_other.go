//go:build !linux

package main

import (
	"log/slog"
	"net"
)

// setBacklog leaves the number to the system, and says so.
func setBacklog(_ *net.TCPListener, backlog int, logger *slog.Logger) error {
	logger.Warn("clientPortListenBacklog not supported here", slog.Int("backlog", backlog))
	return nil
}
