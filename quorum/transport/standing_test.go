package transport

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"zkd/quorum/clock"
)

// stands is how a server stands, which may change.
type stands struct{ now atomic.Uint32 }

func (s *stands) get() Standing { return Standing(s.now.Load()) } //nolint:gosec // set stores 8 bits

func (s *stands) set(to Standing) { s.now.Store(uint32(to)) }

// standing makes a member that belongs to no cluster, or is about to found one with its data. It refuses as zkd does.
func standing(t *testing.T, id uint64, now *stands, set func(*Options)) *member {
	return newMember(t, id, func(o *Options) {
		o.ClusterID, o.Standing = nil, now.get
		if now.get() == WithData {
			o.ClusterID = func() [16]byte { return cluster }
		}
		o.BootstrapConflict = func(_ uint64, _ [16]byte, other Standing) string {
			switch own := now.get(); {
			case own == WithData && other == Bootstrapping,
				own == Bootstrapping && (other == WithData || other == GaveWay):
				return "one founds with data, the other without"
			case own == Idle && other == WithData:
				now.set(GaveWay)
			}
			return ""
		}
		if set != nil {
			set(o)
		}
	})
}

// TestTwoFoundingsAreKeptApart: a server that takes part in a bootstrap without data, and one that bootstraps with
// data, have no stream with each other, whoever dials; both logs say why. Once the former has been emptied they have.
func TestTwoFoundingsAreKeptApart(t *testing.T) {
	var data, none stands
	data.set(WithData)
	none.set(Bootstrapping)
	a, b := standing(t, 1, &data, nil), standing(t, 2, &none, nil)
	a.know(b)
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	for _, m := range []*member{a, b} {
		m.logs("peer unreachable", "one founds with data, the other without", "empty their dataDir")
		m.logs("peer connection rejected", "one founds with data, the other without")
	}
	if s := a.of(2); s.Out || s.In || b.of(1).Out {
		t.Errorf("they are connected: %+v", s)
	}
	none.set(Idle)
	a.linked(b)
}

// TestTheAnswerKeepsFoundingsApart: the accepting side is of an older program, and accepts.
func TestTheAnswerKeepsFoundingsApart(t *testing.T) {
	var none stands
	none.set(Bootstrapping)
	old := newMember(t, 1, nil)
	b := standing(t, 2, &none, func(o *Options) {
		o.BootstrapConflict = func(server uint64, its [16]byte, other Standing) string {
			if server == 1 && its == cluster && other == Idle {
				return "it is founded on data"
			}
			return ""
		}
	})
	old.know(b)
	b.know(old)
	old.Start(old.heard)
	b.Start(b.heard)
	b.logs("peer unreachable", "it is founded on data")
}

// TestQuestionsOfDataAreAnsweredBeforeTheStart: both sides are about to start and ask each other, in both orders; who
// has nothing gives way. Who bootstraps without data already says so, and the question changes nothing.
func TestQuestionsOfDataAreAnsweredBeforeTheStart(t *testing.T) {
	for _, c := range []struct {
		name              string
		before            Standing
		dataAsks          bool
		wantData, wantOne Standing // what the one with data learns of the other, and how that stands in the end
	}{
		{"the one with data asks", Idle, true, GaveWay, GaveWay},
		{"the other one asks", Idle, false, 0, GaveWay},
		{"the other one founds already", Bootstrapping, true, Bootstrapping, Bootstrapping},
	} {
		t.Run(c.name, func(t *testing.T) {
			var data, none stands
			data.set(WithData)
			none.set(c.before)
			a, b := standing(t, 1, &data, nil), standing(t, 2, &none, nil)
			a.know(b)
			b.know(a)
			a.Answer()
			b.Answer()
			ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
			defer cancel()
			if c.dataAsks {
				got, err := a.ProbeCluster(ctx, 2)
				if want := (Probed{Standing: c.wantData}); err != nil || got != want {
					t.Errorf("%+v, %v, want %+v", got, err, want)
				}
			} else {
				got, err := b.ProbeCluster(ctx, 1)
				if want := (Probed{Cluster: cluster, Standing: WithData}); err != nil || got != want {
					t.Errorf("%+v, %v, want %+v", got, err, want)
				}
			}
			if none.get() != c.wantOne {
				t.Errorf("it stands as %d, want %d", none.get(), c.wantOne)
			}
		})
	}
}

// TestOtherQuestionsWaitForTheStart: whom a server has met is known from its start on.
func TestOtherQuestionsWaitForTheStart(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	var idle stands
	idle.set(Idle)
	a := standing(t, 1, &idle, nil)
	b := standing(t, 2, &idle, func(o *Options) { o.Knows = func(uint64) bool { return true } })
	a.know(b)
	b.know(a)
	b.Answer()
	type told struct {
		asked Probed
		err   error
	}
	answers := make(chan told, 1)
	go func() {
		asked, err := a.ProbeCluster(context.Background(), 2)
		answers <- told{asked, err}
	}()
	eventually(t, "the question is there", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.handshaking > 0
	})
	select {
	case got := <-answers:
		t.Errorf("answered before the start: %+v", got)
	default:
	}
	b.Start(b.heard)
	if got := <-answers; got.err != nil || !got.asked.Known {
		t.Errorf("%+v, want to be known", got)
	}
	// One that never starts lets nobody wait for longer than a handshake.
	c := standing(t, 3, &idle, func(o *Options) { o.Clock = manual })
	c.know(a)
	c.Answer()
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	h := good()
	h.from, h.to, h.cluster = 1, 3, [16]byte{}
	if _, err := conn.Write(h.encode()); err != nil {
		t.Fatal(err)
	}
	advanceUntil(t, manual, defaultDialTimeout, "it is given up", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.handshaking == 0
	})
}

// TestAStreamOfBeforeItGaveWayIsMadeAnew: the other side learns that it is safe to be heard.
func TestAStreamOfBeforeItGaveWayIsMadeAnew(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	var first, second stands
	first.set(Idle)
	second.set(Idle)
	var heard atomic.Uint32
	a := standing(t, 1, &first, func(o *Options) { o.Clock = manual })
	b := standing(t, 2, &second, func(o *Options) {
		o.Clock = manual
		o.BootstrapConflict = func(_ uint64, _ [16]byte, other Standing) string {
			heard.Store(uint32(other))
			return ""
		}
	})
	a.know(b)
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	a.linked(b)
	first.set(GaveWay)
	advanceUntil(t, manual, defaultIdleTimeout, "the streams are new", func() bool {
		return a.heard.losses(2) > 0 && heard.Load() == uint32(GaveWay) && a.of(2).Out && a.of(2).In
	})
}
