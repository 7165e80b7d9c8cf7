package main

import (
	"log/slog"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// backlogOf asks the system for the backlog of a listener: TCP_INFO has it where a connection has its SACK blocks.
func backlogOf(t *testing.T, l net.Listener) int {
	t.Helper()
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	var failed error
	err = raw.Control(func(fd uintptr) {
		info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return int(info.Sacked)
}

func TestListenBacklog(t *testing.T) {
	usual := 0
	for _, backlog := range []int{systemBacklog, 0, 1, 7, 100} {
		l, err := listen(t.Context(), "127.0.0.1:0", backlog, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		got := backlogOf(t, l)
		switch {
		case backlog == systemBacklog:
			usual = got
		case backlog <= 0:
			if got != usual {
				t.Errorf("backlog %d without a number, want the system's %d", got, usual)
			}
		case got != backlog:
			t.Errorf("backlog %d, want %d", got, backlog)
		}
		accepted := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				err = c.Close()
			}
			accepted <- err
		}()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; err != nil {
			t.Errorf("accept with backlog %d: %v", backlog, err)
		}
		_ = c.Close()
		_ = l.Close()
	}
	if usual == 7 || usual == 0 {
		t.Errorf("the system's own backlog is %d: the test proves nothing", usual)
	}
}
