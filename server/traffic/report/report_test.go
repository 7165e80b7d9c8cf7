package report

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"zkd/quorum/clock"
)

// web serves answers by path.
func web(t *testing.T, answer func(path string) (status int, body string)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body := answer(strings.TrimPrefix(r.URL.Path, "/commands/"))
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/commands"
}

// newAsker returns an asker and its clock.
func newAsker(t *testing.T) (*Asker, *clock.Manual) {
	t.Helper()
	now := clock.NewManual(time.Unix(1_800_000_000, 0))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return NewAsker(Options{Client: client, Timeout: time.Minute, Clock: now}), now
}

// TestAnAnswerIsTheSameByHTTP: what an admin server says is what a server in this process says.
func TestAnAnswerIsTheSameByHTTP(t *testing.T) {
	body, err := os.ReadFile("../../admin/testdata/top.json")
	if err != nil {
		t.Fatal(err)
	}
	a, _ := newAsker(t)
	admin := web(t, func(string) (int, string) { return http.StatusOK, string(body) })
	own := func(int) (*Answer, error) { return readAnswer(body) }
	want := a.Ask(t.Context(), []Target{{Name: "a", Own: own}}, 2)
	got := a.Ask(t.Context(), []Target{{Name: "a", Admin: admin}}, 2)
	if got.Total.Requests == 0 || got.Servers[0].Kind != KindZkd {
		t.Errorf("%+v", got.Servers[0])
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Server{})); diff != "" {
		t.Errorf("by HTTP (+) and not (-):\n%s", diff)
	}
}

// TestRefusals: what keeps a server from answering is said.
func TestRefusals(t *testing.T) {
	a, _ := newAsker(t)
	for _, tc := range []struct {
		status int
		body   string
		want   string
	}{
		{http.StatusOK, `{"command":"top","error":"Requests are not counted: zkd.traffic=false"}`, "zkd.traffic=false"},
		{http.StatusForbidden, `{}`, "not authorized: ask on its own machine"},
		{http.StatusBadGateway, ``, "its admin server answers 502 Bad Gateway"},
		{http.StatusOK, `<html>`, "not the answer of an admin server"},
	} {
		r := a.Ask(t.Context(), []Target{{Name: "a", Admin: web(t, func(string) (int, string) {
			return tc.status, tc.body
		})}}, 1)
		if got := r.Servers[0].Error; !strings.Contains(got, tc.want) || r.Answered() == nil {
			t.Errorf("%d %s: %q, want %q", tc.status, tc.body, got, tc.want)
		}
	}
	broken := func(context.Context, string) (string, error) { return "", errors.New("not on the whitelist") }
	r := a.Ask(t.Context(), []Target{{Name: "a", Admin: "http://127.0.0.1:1/commands", Words: broken}}, 1)
	got := r.Servers[0].Error
	if !strings.Contains(got, "refused") || !strings.Contains(got, "mntr: not on the whitelist") {
		t.Errorf("neither answers: %q", got)
	}
}

// What a server of Apache's says: two samples of its admin server and of its words.
const (
	monitor1 = `{"packets_received":100,"avg_latency":0.5,"max_latency":7,"num_alive_connections":2,` +
		`"outstanding_requests":0,"watch_count":3,"znode_count":5,"uptime":61000,"server_state":"leader"}`
	connections1 = `{"connections":[{"remote_socket_address":"10.0.0.1:4711","packets_received":40,"session_id":7,` +
		`"avg_latency":0.25,"max_latency":2},{"remote_socket_address":"10.0.0.2:4711","packets_received":5,` +
		`"session_id":8,"avg_latency":1,"max_latency":9}],"secure_connections":[],"error":null}`
	mntr1 = "zk_version\t3.9.5\nzk_server_state\tleader\nzk_packets_received\t100\nzk_avg_latency\t0.5\n" +
		"zk_max_latency\t7\nzk_num_alive_connections\t2\nzk_outstanding_requests\t0\nzk_watch_count\t3\n" +
		"zk_znode_count\t5\nzk_uptime\t61000\n"
	cons1 = " /10.0.0.1:4711[1](queued=0,recved=40,sent=40,sid=0x7,lop=GETD,est=1,to=30000,lcxid=0x5,lzxid=0x3," +
		"lresp=3,llat=1,minlat=0,avglat=0,maxlat=2)\n" +
		" /10.0.0.2:4711[1](queued=0,recved=5,sent=5,sid=0x8,lop=PING,est=1,to=30000,lcxid=0x5,lzxid=0x3,lresp=3," +
		"llat=1,minlat=0,avglat=1,maxlat=9)\n /127.0.0.1:9[0](queued=0,recved=1,sent=0)\n\n"
)

// later is a sample with 20 requests more, all of one client.
func later(text string) string {
	return strings.NewReplacer(`received":100`, `received":120`, `received":40`, `received":60`,
		"received\t100", "received\t120", "recved=40", "recved=60").Replace(text)
}

// TestApache: of servers of Apache's what comes between two samples is shown, by their admin server and by words.
func TestApache(t *testing.T) {
	var second atomic.Bool
	say := func(text string) string {
		if second.Load() {
			return later(text)
		}
		return text
	}
	admin := web(t, func(path string) (int, string) {
		switch path {
		case "monitor":
			return http.StatusOK, say(monitor1)
		case "connections":
			return http.StatusOK, say(connections1)
		}
		return http.StatusOK, `{"command":"top","error":"Unknown command: top"}`
	})
	words := func(_ context.Context, word string) (string, error) {
		return map[string]string{"mntr": say(mntr1), "cons": say(cons1)}[word], nil
	}
	for kind, target := range map[string]Target{ // any order
		KindAdmin: {Name: "zk1:2181", Admin: admin},
		KindWords: {Name: "zk1:2181", Admin: "http://127.0.0.1:1/commands", Words: words},
	} {
		second.Store(false)
		a, now := newAsker(t)
		r := a.Ask(t.Context(), []Target{target}, 2)
		if !a.Waits(r) || r.Servers[0].Kind != kind || r.Servers[0].State.State != "leader" {
			t.Errorf("%s: %+v", kind, r.Servers[0])
		}
		second.Store(true)
		now.Advance(2 * time.Second)
		r = a.Ask(t.Context(), []Target{target}, 2)
		if a.Waits(r) || r.Total.Requests != 20 || r.Total.PerSecond != 10 || r.Total.MaxUs != 7000 {
			t.Errorf("%s: %+v", kind, r.Total)
		}
		if len(r.Sessions) != 1 || r.Sessions[0].Session != "0x7" || r.Sessions[0].PerSecond != 10 ||
			len(r.Addresses) != 1 || r.Addresses[0].Address != "10.0.0.1" {
			t.Errorf("%s: sessions %+v, addresses %+v", kind, r.Sessions, r.Addresses)
		}
		if s := &r.Sessions[0]; !s.Untold {
			t.Errorf("%s: bytes are told: %+v", kind, s)
		}
	}
}
