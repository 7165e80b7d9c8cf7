package transport

import (
	"log/slog"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boundSilence has the system give up a connection when what was sent is not acknowledged within the idle timeout: the
// host is gone. By itself it would try for a quarter of an hour, and the first who notices may be a reader elsewhere.
func (t *Transport) boundSilence(conn net.Conn) {
	tcp, ok := conn.(syscall.Conn)
	if !ok {
		return // of a test
	}
	raw, err := tcp.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) {
			millis := int(t.opts.IdleTimeout / time.Millisecond)
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, millis)
		})
		if err == nil {
			err = failed
		}
	}
	if err != nil { // the minder gives it up too, if later
		t.opts.Logger.Debug("the system does not bound the silence of a connection", slog.Any("err", err))
	}
}
