package socket

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// peerClosed reports whether the other end has closed its side of a connection, although what it sent before may not
// have been read yet. A nil connection has not.
func peerClosed(raw syscall.RawConn) bool {
	if raw == nil {
		return false
	}
	gone := false
	err := raw.Control(func(fd uintptr) {
		ask := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(ask, 0)
		gone = err == nil && n > 0
	})
	return err != nil || gone // an error: this end is closed
}
