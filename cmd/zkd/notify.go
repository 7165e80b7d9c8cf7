package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"zkd/server/instance"
)

// What the service manager is told, as sd_notify(3) words it.
const (
	notifyReady    = "READY=1\nSTATUS=serving"
	notifyStopping = "STOPPING=1\nSTATUS=stopping"
	notifyWatchdog = "WATCHDOG=1"
)

// notifier tells the service manager that started this process (systemd, Type=notify) how far it is. Without one it
// says nothing.
type notifier struct {
	socket string        // the manager's datagram socket; "" is none. A name that begins with @ is an abstract one
	beat   time.Duration // how often it wants to hear from the server; 0 is never
	logger *slog.Logger
}

// newNotifier reads what the manager has put into the environment, and takes it out of there: it is not meant for
// processes that this one starts.
func newNotifier(logger *slog.Logger) *notifier {
	n := &notifier{socket: os.Getenv("NOTIFY_SOCKET"), logger: logger}
	if n.socket != "" {
		n.beat = watchdogBeat(os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID"))
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name) // fails for no name that can be read
	}
	return n
}

// watchdogBeat is half the time after which the manager takes the server for dead, as sd_watchdog_enabled(3) advises,
// or 0 if it does not watch this process.
func watchdogBeat(micros, pid string) time.Duration {
	n, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || n <= 0 || (pid != "" && pid != strconv.Itoa(os.Getpid())) {
		return 0
	}
	return time.Duration(n) * time.Microsecond / 2
}

// notify tells how far the server is.
func (n *notifier) notify(s instance.Stage) {
	switch s {
	case instance.Ready:
		n.tell(notifyReady)
	case instance.Alive:
		n.tell(notifyWatchdog)
	case instance.Stopping:
		n.tell(notifyStopping)
	}
}

// tell sends one state. A manager that does not hear is no reason to stop, but one to say so: it may soon end this
// process.
func (n *notifier) tell(state string) {
	if n.socket == "" {
		return
	}
	if err := n.send(state); err != nil {
		n.logger.Warn("failed to notify the service manager", slog.String("path", n.socket),
			slog.Any("err", err))
	}
}

// send writes one datagram to the manager.
func (n *notifier) send(state string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // a datagram is sent or not: there is nothing left to lose
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("send %q: %w", state, err)
	}
	return nil
}
