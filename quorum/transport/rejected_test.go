package transport

import (
	"testing"
	"time"

	"zkd/quorum/clock"
)

// TestAServerThatIsNoMemberIsToldOfRarely: it calls each second until it is one, or stopped.
func TestAServerThatIsNoMemberIsToldOfRarely(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	a := newMember(t, 1, func(o *Options) { o.Clock = manual })
	calls := func(from uint64) {
		a.joiners.tell("10.0.0.9:1234", &rejectedError{from: from, name: "zkd/9",
			refusal: &RefusalError{Code: NotMember, Text: "server 1 knows no server 4"}})
	}
	told := 0
	for minute := range 9 {
		for range 60 {
			calls(4)
			manual.Advance(time.Second)
		}
		if minute == 0 || minute == 1 || minute == 3 || minute == 7 {
			told++
		}
		if n := a.says("a server that is no member calls"); n != told {
			t.Fatalf("%d lines after %d minutes, want %d", n, minute+1, told)
		}
	}
	calls(5)
	if n := a.says("peer=5"); n != 1 || a.says("level=WARN") != 0 {
		t.Errorf("%d lines of another server, and a warning", n)
	}
	for from := range uint64(3 * joinersMax) { // who invents numbers
		calls(100 + from)
	}
	if n := a.says("a server that is no member calls"); n > joinersMax+told {
		t.Errorf("%d lines of servers that are none", n)
	}
}

// TestAPeerThatStaysAwayIsToldOfRarely: when it begins, and after a minute, two, four.
func TestAPeerThatStaysAwayIsToldOfRarely(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	a := newMember(t, 1, func(o *Options) { o.Clock = manual })
	p := newPeer(a.Transport, 2, Peer{Addresses: []string{"nowhere:1"}}, nil)
	manual.Advance(startsWithin)
	told := 0
	for minute := range 9 {
		for range 60 {
			p.tell(errTimeout, manual.Now())
			manual.Advance(time.Second)
		}
		if minute == 0 || minute == 1 || minute == 3 || minute == 7 {
			told++
		}
		if n := a.says("peer unreachable"); n != told {
			t.Fatalf("%d lines after %d minutes, want %d", n, minute+1, told)
		}
	}
	if p.tell(&RefusalError{Code: NotMember}, manual.Now()); a.says("peer unreachable") != told+1 {
		t.Error("another reason waits")
	}
}

// TestServersThatStartTogetherDoNotWarnOfEachOther: who does not answer yet is told of when it has not for a while. Who
// refuses is told of at once, and so is who does not answer where the others have been for long.
func TestServersThatStartTogetherDoNotWarnOfEachOther(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	a := newMember(t, 1, func(o *Options) { o.Clock = manual })
	p := newPeer(a.Transport, 2, Peer{Addresses: []string{"nowhere:1"}}, nil)
	for began := manual.Now(); manual.Since(began) < startsWithin; manual.Advance(time.Second) {
		if p.tell(errTimeout, manual.Now()); a.says("level=WARN") != 0 {
			t.Fatalf("told after %v", manual.Since(began))
		}
	}
	if p.tell(errTimeout, manual.Now()); a.says("peer unreachable") != 1 {
		t.Error("it lasts, and is not told")
	}
	p = newPeer(a.Transport, 3, Peer{Addresses: []string{"nowhere:1"}}, nil)
	if p.tell(&RefusalError{Code: OtherCluster}, manual.Now()); a.says("peer unreachable") != 2 {
		t.Error("a refusal waits")
	}
}

// TestThatThisServerIsNoMemberIsToldOnce: all peers say so, each again and again. Another reason, or that it comes back
// after a peer has taken the server, is news.
func TestThatThisServerIsNoMemberIsToldOnce(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	a := newMember(t, 4, func(o *Options) { o.Clock = manual })
	peers := []*peer{}
	for id := range uint64(3) {
		peers = append(peers, newPeer(a.Transport, id+1, Peer{Addresses: []string{"nowhere:1"}}, nil))
	}
	told := 0
	for minute := range 9 {
		for range 60 {
			for _, p := range peers {
				p.tell(&RefusalError{Code: NotMember}, manual.Now())
			}
			manual.Advance(time.Second)
		}
		if minute == 0 || minute == 1 || minute == 3 || minute == 7 {
			told++
		}
		if n := a.says("peer unreachable"); n != told {
			t.Fatalf("%d lines after %d minutes, want %d", n, minute+1, told)
		}
	}
	if peers[1].tell(errTimeout, manual.Now()); a.says("peer unreachable") != told+1 {
		t.Error("another reason waits, though it is no server that starts beside this one")
	}
	begun := manual.Now()
	manual.Advance(time.Millisecond)
	a.outsider.reset()
	for _, p := range peers {
		p.logged = ""
		p.tell(&RefusalError{Code: NotMember}, begun)
	}
	if n := a.says("peer unreachable"); n != told+1 {
		t.Errorf("%d lines, want %d: who refused had not heard yet that another one has taken the server", n, told+1)
	}
	for _, p := range peers {
		p.logged = ""
		p.tell(&RefusalError{Code: NotMember}, manual.Now())
	}
	if n := a.says("peer unreachable"); n != told+2 {
		t.Errorf("%d lines, want %d: it was taken out again", n, told+2)
	}
}

// TestAPeerWithoutAnAddressIsToldOfIfItStays: a server that starts anew reads in the log who was removed, or where who
// has come is.
func TestAPeerWithoutAnAddressIsToldOfIfItStays(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	a := newMember(t, 1, func(o *Options) { o.Clock = manual })
	p := newPeer(a.Transport, 4, Peer{}, nil)
	_, err := p.connect(t.Context(), forMessages)
	for second := range 60 {
		if p.tell(err, manual.Now()); a.says("peer unreachable") != 0 {
			t.Fatalf("it is told after %d seconds", second)
		}
		manual.Advance(time.Second)
	}
	p.tell(err, manual.Now())
	if a.says("peer unreachable") != 1 || a.says("give this server a line of it in zoo.cfg") == 0 {
		t.Errorf("after a minute it is not told, or not what to do")
	}
}
