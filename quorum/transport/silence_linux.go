package transport

import (
	"errors"
	"log/slog"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boundSilence has the system give up a connection when what was sent is not acknowledged within the idle timeout: the
// host is gone. By itself it would try for a quarter of an hour, and the first who notices may be a reader elsewhere.
func boundSilence(conn net.Conn, o *Options) {
	err := setTCP(conn, unix.TCP_USER_TIMEOUT, int(o.IdleTimeout/time.Millisecond))
	if err != nil { // the supervisor gives it up too, if later
		o.Logger.Debug("TCP_USER_TIMEOUT not supported", slog.Any("err", err))
	}
}

// boundUnsent has the system take little more of a connection than it has sent: a small frame waits behind all that it
// has taken, and by itself that is megabytes.
func boundUnsent(conn net.Conn, o *Options) {
	if err := setTCP(conn, unix.TCP_NOTSENT_LOWAT, burstPieces*pieceBytes); err != nil {
		o.Logger.Debug("TCP_NOTSENT_LOWAT not supported", slog.Any("err", err))
	}
}

// setTCP sets an option of a TCP connection; nothing of another one, such as a test's.
func setTCP(conn net.Conn, option, value int) error {
	tcp, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, option, value)
	})
	return errors.Join(err, failed)
}
