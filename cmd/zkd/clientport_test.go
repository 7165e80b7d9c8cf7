package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
	"zkd/conf"
)

// wordDeadline is how long an answer may take on a slow machine.
const wordDeadline = time.Minute

// word asks a server for a four-letter word; "" if it does not answer.
func word(addr, name string) string {
	conn, err := net.DialTimeout("tcp", addr, wordDeadline)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(wordDeadline)) != nil {
		return ""
	}
	if _, err := io.WriteString(conn, name); err != nil {
		return ""
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return ""
	}
	return string(text)
}

// TestTheClientPortMovesWhenItIsFree: a reconfig wants clients at a port that somebody else has. They stay where they
// are until he leaves it.
func TestTheClientPortMovesWhenItIsFree(t *testing.T) {
	config, err := conf.Load(conf.Sources{Text: fmt.Appendf(nil, "dataDir=%s\nclientPort=0\n"+
		"clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n", t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	i := newInstance(config, slog.New(slog.DiscardHandler))
	if err := i.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := i.client.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.run(ctx) }()
	// A port that the system gives to nobody else while it is free.
	wanted := fmt.Sprintf("127.0.0.1:%d", target.FreePort(t))
	other, err := net.Listen("tcp", wanted)
	if err != nil {
		t.Fatal(err)
	}
	i.moves <- wanted
	i.moves <- wanted // when there is room, the first was looked at
	if word(before, "ruok") != "imok" {
		t.Error("the former port is closed, and there is no other")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	again, end := time.NewTicker(20*time.Millisecond), time.NewTimer(wordDeadline)
	defer again.Stop()
	defer end.Stop()
	for word(wanted, "ruok") != "imok" {
		select {
		case <-again.C:
		case <-end.C:
			t.Fatal("the port for clients has not moved")
		}
	}
	_, port, _ := strings.Cut(wanted, ":")
	for shown := word(wanted, "conf"); !strings.Contains(shown, "clientPort="+port+"\n"); shown = word(wanted, "conf") {
		select {
		case <-again.C:
		case <-end.C:
			t.Fatalf("conf does not show port %s: %q", port, shown)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := i.close(stopTimeout); err != nil {
		t.Error(err)
	}
}
