package transport

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"zkd/quorum/clock"
)

// withoutLevels returns a hello or an answer as a program says it that knows no levels.
func withoutLevels(sealed []byte, headBytes int) []byte {
	const levelsBytes, standingBytes = 4, 1
	end := len(sealed) - sumBytes - standingBytes - levelsBytes
	if headBytes == helloHeadBytes {
		end-- // no address
	}
	return seal(bytes.Clone(sealed[:end]), headBytes)
}

// newer makes servers of a program that can do level 3, in an ensemble that is at a level of its own.
func newer(ensemble *atomic.Uint32) func(*Options) {
	return func(o *Options) {
		o.Level, o.LevelAgreed = 3, 3
		o.EnsembleLevel = func() uint16 { return uint16(ensemble.Load()) }
	}
}

// TestHandshakesOfBeforeLevels: hello and answer without levels are of level 1, those with them are read by who passes
// over what it does not know, and what a later version adds behind them is passed over here.
func TestHandshakesOfBeforeLevels(t *testing.T) {
	h := good()
	h.levels = levels{able: 7, agreed: 6}
	a := answer{version: 1, levels: levels{able: 5, agreed: 4}}
	for _, tc := range []struct {
		hello, answer     []byte
		inHello, inAnswer levels
	}{
		{h.encode(), a.encode(), h.levels, a.levels},
		{
			withoutLevels(h.encode(), helloHeadBytes), withoutLevels(a.encode(), answerHeadBytes),
			levels{1, 1}, levels{1, 1},
		},
		{grown(h.encode(), helloHeadBytes), grown(a.encode(), answerHeadBytes), h.levels, a.levels},
	} {
		if got, err := readHello(bytes.NewReader(tc.hello)); err != nil || got.levels != tc.inHello {
			t.Errorf("hello %+v, %v, want %+v", got, err, tc.inHello)
		}
		if got, err := readAnswer(bytes.NewReader(tc.answer)); err != nil || got.levels != tc.inAnswer {
			t.Errorf("answer %+v, %v, want %+v", got, err, tc.inAnswer)
		}
	}
}

// grown returns a hello or an answer with a field that nobody knows yet.
func grown(sealed []byte, headBytes int) []byte {
	return seal(append(bytes.Clone(sealed[:len(sealed)-sumBytes]), "later"...), headBytes)
}

// TestOldServersAreRefusedAtTheEnsemblesLevel: whoever calls, and with a word on both sides of what to do.
func TestOldServersAreRefusedAtTheEnsemblesLevel(t *testing.T) {
	var ensemble atomic.Uint32
	ensemble.Store(2)
	a := newMember(t, 1, newer(&ensemble))
	old := newMember(t, 2, nil)
	a.know(old)
	old.know(a)
	a.Start(a.heard)
	old.Start(old.heard)
	const text = "the ensemble is at feature level 2, and the zkd of server 2 can do 1"
	a.logs("peer unreachable", "peer=2", text, "never lowered")
	a.logs("peer connection rejected", text)
	old.logs("peer unreachable", "peer=1", text, "run on the older server")
	h := good()
	answered, _ := call(t, a, h)
	if answered.code != OldLevel || answered.levels != (levels{3, 3}) {
		t.Errorf("answer %+v, want code %d", answered, OldLevel)
	}
	h.levels = levels{able: 2, agreed: 1}
	if answered, _ := call(t, a, h); answered.code != Accepted {
		t.Errorf("a server that can do the level is answered %+v", answered)
	}
	eventually(t, "it is known to what it agrees", func() bool { return a.AgreedLevel(2) == 1 })
	h.levels, h.purpose, h.cluster = levels{able: 1}, forCluster, [16]byte{}
	if answered, _ := call(t, a, h); answered.code == OldLevel {
		t.Error("a question for the cluster is refused for the level")
	}
	if got := a.AgreedLevel(9); got != 0 {
		t.Errorf("a server that is no peer agrees to level %d", got)
	}
}

// TestStreamsToOldServersEndWhenTheLevelIsRaised: they began before, which no leader should have let happen.
func TestStreamsToOldServersEndWhenTheLevelIsRaised(t *testing.T) {
	var ensemble atomic.Uint32
	manual := clock.NewManual(time.Unix(1e6, 0))
	set := func(o *Options) { o.Clock = manual }
	a := newMember(t, 1, func(o *Options) { set(o); newer(&ensemble)(o) })
	b, old := newMember(t, 2, func(o *Options) { set(o); newer(&ensemble)(o) }), newMember(t, 3, set)
	for _, m := range []*member{a, b, old} {
		m.know(a, b, old)
		m.Start(m.heard)
	}
	a.linked(b)
	a.linked(old)
	b.linked(old)
	if got := [...]uint16{a.AgreedLevel(2), a.AgreedLevel(3), b.AgreedLevel(3), old.AgreedLevel(1)}; got != [...]uint16{
		3, 1, 1, 3} {
		t.Errorf("agreed levels %v", got)
	}
	if s := a.of(3); s.Level != 1 {
		t.Errorf("status %+v", s)
	}
	ensemble.Store(2)
	advanceUntil(t, manual, defaultIdleTimeout, "the streams are given up", func() bool {
		return !a.of(3).Out && !a.of(3).In && !old.of(1).Out
	}, a, b)
	if s := a.of(2); !s.In || !s.Out || a.heard.losses(2) != 0 {
		t.Errorf("the stream to a newer server was disturbed: %+v", s)
	}
}
