package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The slow disk, as decisions/0043 has it: a filter of the kernel's (seccomp, in the process that becomes the server)
// stops each fsync and fdatasync and tells of it on a descriptor, on which another process lets the call go on, after
// a while.

// slowSocket is the descriptor of both processes over which the kernel's one is handed.
const slowSocket = 3

// slowAtOnce is how many syncs may be waiting at a time; the next ones wait for their turn to wait. A guess, some times
// what a server has.
const slowAtOnce = 16

// seccompNotice and seccompAnswer are struct seccomp_notif and struct seccomp_notif_resp of linux/seccomp.h.
type (
	seccompNotice struct {
		id         uint64
		pid, flags uint32
		nr         int32
		arch       uint32
		ip         uint64
		args       [6]uint64
	}
	seccompAnswer struct {
		id    uint64
		value int64
		err   int32
		flags uint32
	}
)

// BecomeSlow has this process become argv, each of whose syncs waits for who runs DelaySyncs at the other end of the
// inherited socket. It returns only if that fails.
func BecomeSlow(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("find the server's program: %w", err)
	}
	runtime.LockOSThread() // the filter is this thread's, and so the new program's
	listener, err := filterSyncs()
	if err != nil {
		return fmt.Errorf("have the kernel stop each fsync: %w", err)
	}
	if err := unix.Sendmsg(slowSocket, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("hand over who is asked about each fsync: %w", err)
	}
	if err := errors.Join(unix.Close(slowSocket), unix.Close(listener)); err != nil {
		return fmt.Errorf("close what the server is not to have: %w", err)
	}
	return fmt.Errorf("start %s: %w", path, unix.Exec(path, argv, os.Environ()))
}

// filterSyncs stops the syncs of this thread, and of all that it will start, and returns the descriptor that tells of
// them.
func filterSyncs() (listener int, err error) {
	statement := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		end   = unix.BPF_RET | unix.BPF_K
	)
	program := []unix.SockFilter{
		statement(load, 0, 0, 0), // the number of the call, at the beginning of struct seccomp_data
		statement(equal, unix.SYS_FSYNC, 1, 0),
		statement(equal, unix.SYS_FDATASYNC, 0, 1),
		statement(end, unix.SECCOMP_RET_USER_NOTIF, 0, 0),
		statement(end, unix.SECCOMP_RET_ALLOW, 0, 0),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // else only root may
		return 0, err
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// A call that was told of is not begun anew for a signal, such as those that Go sends its threads (Linux 5.19).
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	for {
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
			uintptr(unsafe.Pointer(&prog)))
		if errno == 0 {
			return int(fd), nil
		}
		if errno != unix.EINVAL || flags == unix.SECCOMP_FILTER_FLAG_NEW_LISTENER {
			return 0, errno
		}
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
}

// DelaySyncs holds up each sync of the process that has called BecomeSlow at the other end of the inherited socket, by
// d, until that process has ended.
func DelaySyncs(d time.Duration) error {
	listener, err := receiveListener()
	if err != nil {
		return fmt.Errorf("be handed what tells of each fsync: %w", err)
	}
	ended := make(chan error)
	for range slowAtOnce {
		go func() { ended <- delaySyncs(listener, d) }()
	}
	return <-ended
}

func receiveListener() (int, error) {
	var data [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(slowSocket, data[:], control, 0)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("the server has not begun (%d messages): %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, fmt.Errorf("%d descriptors have come: %w", len(fds), err)
	}
	return fds[0], nil
}

// delaySyncs holds up one sync after the other. It sleeps by the kernel's own timer: Go's is exact to a millisecond in
// a process that has nothing else to do.
func delaySyncs(listener int, d time.Duration) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return err
	}
	wait := unix.NsecToTimespec(int64(d))
	for {
		var notice seccompNotice
		if err := tell(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&notice)); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if errors.Is(err, unix.ENOENT) { // who has called has ended, or all have
				if over(listener) {
					return nil
				}
				continue
			}
			return fmt.Errorf("await a sync: %w", err)
		}
		for left := wait; unix.Nanosleep(&left, &left) != nil; { // a signal has come: the rest is left
		}
		answer := seccompAnswer{id: notice.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		err := tell(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&answer))
		if err != nil && !errors.Is(err, unix.ENOENT) { // who has called has ended
			return fmt.Errorf("let a sync go on: %w", err)
		}
	}
}

// over reports whether nobody is left whom the filter stops.
func over(listener int) bool {
	fds := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
	_, err := unix.Poll(fds, 0)
	return err == nil && fds[0].Revents&unix.POLLHUP != 0
}

// tell is one ioctl.
func tell(fd int, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// slowPair returns the two ends of a socket for the two processes.
func slowPair() (server, delayer *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket between a server and who delays its fsyncs: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "server"), os.NewFile(uintptr(fds[1]), "delayer"), nil
}
