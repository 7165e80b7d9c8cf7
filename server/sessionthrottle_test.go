package server

import (
	"strings"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/limits"
)

func TestNewSessionsTakeTokens(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	r := startRig(t, rigOptions{clock: now, ready: func() { now.Advance(ahead) }, set: func(o *Options) {
		o.Limits.Sessions = limits.SessionThrottle{Tokens: 2, FillTime: time.Second, FillCount: 1, FreezeTime: -1}
	}})
	now.Advance(time.Second)
	a, b := r.connect(t), r.connect(t)
	refused := r.dial(t)
	refused.write(frame((&jute.ConnectRequest{TimeoutMillis: 30000, Passwd: make([]byte, 16)}).Append(nil)))
	refused.wantClosed()
	// So is one that would come back, and its connection stays.
	again := r.dial(t)
	again.write(frame((&jute.ConnectRequest{TimeoutMillis: 30000, SessionID: a.welcome.SessionID,
		Passwd: a.welcome.Passwd}).Append(nil)))
	again.wantClosed()
	a.wantSilence()
	b.wantSilence()
	word := r.dial(t) // four-letter commands need no token
	word.write([]byte("mntr"))
	text := string(word.rest())
	for _, want := range []string{
		"zk_connection_rejected\t2\n", "zk_connection_request_count\t2\n", "zk_connection_drop_probability\t0.0\n",
		"zk_cnt_connection_token_deficit\t2\n", "zk_sum_connection_token_deficit\t3\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("mntr has no %q", want)
		}
	}
	now.Advance(time.Second + time.Millisecond)
	if back := r.reattach(t, a); back.welcome.SessionID != a.welcome.SessionID {
		t.Errorf("with a token again: %+v", back.welcome)
	}
}
