package client

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stampedReader reads from a TCP socket, and knows by the kernel's stamp (SO_TIMESTAMPNS, socket(7)) when what it read
// came to this machine.
type stampedReader struct {
	raw  syscall.RawConn
	now  func() time.Time
	read func(fd uintptr) bool
	// What one call of read takes and gives.
	b       []byte
	n       int
	err     error
	control [controlBytes]byte
	arrived int64 // Unix time in nanoseconds; 0 if the kernel did not say
}

// controlBytes has room for the one control message that is asked for.
const controlBytes = 64

// newStampedReader returns nil for a connection of another kind, and where the kernel stamps nothing.
func newStampedReader(nc net.Conn, now func() time.Time) *stampedReader {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err != nil || refused != nil {
		return nil
	}
	s := &stampedReader{raw: raw, now: now}
	s.read = s.tryRead
	return s
}

// Read is as a net.Conn's.
func (s *stampedReader) Read(b []byte) (int, error) {
	s.b = b
	err := s.raw.Read(s.read)
	s.b = nil
	switch {
	case err != nil:
		return 0, err
	case s.err != nil:
		return 0, s.err
	case s.n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// tryRead is one call to a socket that never waits; false has the caller wait until something is there.
func (s *stampedReader) tryRead(fd uintptr) bool {
	n, controls, _, _, err := unix.Recvmsg(int(fd), s.b, s.control[:], 0)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return errors.Is(err, unix.EINTR) && s.tryRead(fd)
	}
	s.n, s.err, s.arrived = n, err, stampIn(s.control[:controls])
	return true
}

// stampIn returns the time in the control messages of one read, 0 if there is none.
func stampIn(controls []byte) int64 {
	const timespecBytes = 16 // struct timespec of a 64-bit system
	for len(controls) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(controls)
		if err != nil {
			return 0
		}
		if header.Level == unix.SOL_SOCKET && header.Type == unix.SCM_TIMESTAMPNS && len(data) >= timespecBytes {
			seconds, nanos := binary.NativeEndian.Uint64(data), binary.NativeEndian.Uint64(data[8:])
			return int64(seconds)*int64(time.Second) + int64(nanos) //nolint:gosec // the kernel's time of day
		}
		controls = rest
	}
	return 0
}

// lag returns how long ago what was read last came, as far as the kernel has said.
func (s *stampedReader) lag() time.Duration {
	if s.arrived == 0 {
		return 0
	}
	return max(time.Duration(s.now().UnixNano()-s.arrived), 0) // below 0: the clock was set back meanwhile
}
