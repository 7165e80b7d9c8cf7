package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"zkd/server/traffic/report"
)

// tellsConf answers conf with what text holds, and every other client with the end of its connection.
func tellsConf(t *testing.T, text *atomic.Pointer[string]) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nothing is lost
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() //nolint:errcheck // the client sees it
				var word [4]byte
				if _, err := io.ReadFull(c, word[:]); err == nil && string(word[:]) == "conf" {
					_, _ = io.WriteString(c, *text.Load())
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestTopFollowsTheMembers: who joins appears, who is removed goes, and while nobody tells all stay, as one that is
// down does.
func TestTopFollowsTheMembers(t *testing.T) {
	var text atomic.Pointer[string]
	addr := tellsConf(t, &text)
	say := func(members ...string) {
		var b strings.Builder
		for i, m := range members {
			fmt.Fprintf(&b, "server.%d=127.0.0.1:1:2:participant;%s\n", i+1, m)
		}
		all := b.String()
		text.Store(&all)
	}
	say(addr, "127.0.0.1:9") // nobody is there: it is a member that is down
	f := topFlags{status: statusFlags{servers: []string{addr}, timeout: time.Second}}
	if err := f.found(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	names := func(targets []report.Target) (all string) {
		for _, target := range targets {
			all += target.Name + " "
		}
		return all
	}
	if got, want := names(f.targets), addr+" 127.0.0.1:9 "; got != want {
		t.Fatalf("at first %q, want %q", got, want)
	}
	next := func() ([]report.Target, bool) { // what the report behind the next question has
		f.members.asked = time.Time{}
		if _, changed := f.members.follow(t.Context()); changed {
			t.Error("it waits for the answer")
		}
		places := <-f.members.found
		f.members.found <- places
		return f.members.follow(t.Context())
	}
	for _, c := range []struct {
		members []string
		want    string // "" is no change
	}{
		{[]string{addr, "127.0.0.1:9"}, ""},
		{[]string{addr, "127.0.0.1:9", "127.0.0.1:8"}, addr + " 127.0.0.1:9 127.0.0.1:8 "},
		{[]string{addr, "127.0.0.1:8"}, addr + " 127.0.0.1:8 "},
		{nil, ""}, // nobody says who belongs to it
		{[]string{addr}, addr + " "},
	} {
		say(c.members...)
		targets, changed := next()
		if got := names(targets); changed != (c.want != "") || got != c.want {
			t.Errorf("%v: %q, want %q", c.members, got, c.want)
		}
	}
	var none followedMembers // with --admin
	if _, changed := none.follow(context.Background()); changed {
		t.Error("the admin servers that were named are followed")
	}
}
