package server

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"zkd/jute"
)

// consOf matches what cons shows of one session.
const consOf = `recved=(\d+),sent=(\d+),sid=0x%x,lop=(\w+),est=\d+,to=\d+,(?:lcxid=(\w+),)?lzxid=(\w+),lresp=`

// wantCons waits until cons shows of c what is wanted: packets received and sent, the last operation, its xid, or ""
// for none, and zxid.
func (r *rig) wantCons(t *testing.T, c *client, want ...string) {
	t.Helper()
	pattern := regexp.MustCompile(fmt.Sprintf(consOf, int64(c.welcome.SessionID)))
	var got []string
	eventually(t, fmt.Sprintf("cons shows %q", want), func() bool {
		word := r.dial(t)
		word.write([]byte("cons"))
		answer := string(word.rest())
		_ = word.net.Close() // before the next one
		got = pattern.FindStringSubmatch(answer)
		return got != nil && strings.Join(got[1:], " ") == strings.Join(want, " ")
	})
}

// TestConsShowsTheLastOperation has what 3.9.5 shows after each of these requests.
func TestConsShowsTheLastOperation(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	ask := func(op jute.Op, body record) func() { return func() { c.call(op, body) } }
	special := func(xid jute.Xid, op jute.Op, body record) func() {
		return func() {
			c.write(encodeRequest(xid, op, body))
			c.receive()
		}
	}
	word := func(name string) func() {
		return func() {
			w := r.dial(t)
			w.write([]byte(name))
			w.rest()
		}
	}
	missing := &jute.PathVersionRequest{Path: "/none", Version: -1}
	multi := jute.AppendMultiEnd(missing.Append((&jute.MultiHeader{Type: jute.OpDelete, Err: -1}).Append(nil)))
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"new session", func() {}, "1 1 SESS 0x0 0x1"},
		{"ping", special(jute.XidPing, jute.OpPing, raw(nil)), "2 2 PING 0x0 0x1"},
		{"auth", special(jute.XidAuth, jute.OpAuth, &jute.AuthPacket{Scheme: "ip"}), "3 3 PING 0x0 0x1"},
		{"write", ask(jute.OpCreate, makeNode("/z", "", 0)), "4 4 CREA 0x1 0x2"},
		{"failed write", ask(jute.OpCreate, makeNode("/z", "", 0)), "5 5 NA 0x2 0x3"},
		{"failed read", ask(jute.OpGetData, look("/none")), "6 6 GETD 0x3 0x3"},
		{"unreadable write", ask(jute.OpCreate, raw(nil)), "7 7 NA 0x4 0x3"},
		{"unreadable read", ask(jute.OpExists, raw(nil)), "8 8 EXIS 0x5 0x3"},
		{"failed multi", ask(jute.OpMulti, raw(multi)), "9 9 MULT 0x6 0x4"},
		{"special xid", special(-5, jute.OpExists, look("/")), "10 10 EXIS 0x6 0x4"},
		{"delete", ask(jute.OpDelete, gone("/z")), "11 11 DELE 0x7 0x5"},
		{"crst", word("crst"), "0 0 NA  0xffffffffffffffff"},
		{"after it", ask(jute.OpExists, look("/")), "1 1 EXIS 0x8 0x5"},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.do()
			r.wantCons(t, c, strings.Split(step.want, " ")...)
		})
	}
	taken := r.reattach(t, c)
	r.wantCons(t, taken, "1", "1", "null", "0x0", "0x0")
}

// TestAnswersOfCommandsAreCounted: a long answer counts as the packets that 3.9.5 makes of it.
func TestAnswersOfCommandsAreCounted(t *testing.T) {
	r := newRig(t, nil)
	want := r.server.Info().PacketsSent
	for _, word := range []string{"ruok", "mntr"} {
		w := r.dial(t)
		w.write([]byte(word))
		want += int64((len(w.rest()) + commandPacketBytes - 1) / commandPacketBytes)
		eventually(t, word+" is counted", func() bool { return r.server.Info().PacketsSent == want })
	}
	if want < 3 {
		t.Errorf("%d packets: mntr has become a short answer", want)
	}
}
