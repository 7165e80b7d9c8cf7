package main

import (
	"log/slog"
	"net"
	"syscall"
)

// setBacklog sets how many connections the system holds for l: listen(2) may be called again on a socket that listens.
func setBacklog(l *net.TCPListener, backlog int, _ *slog.Logger) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), backlog) }); err != nil {
		return err
	}
	return failed
}
