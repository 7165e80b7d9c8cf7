package gozk_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// idOfZero is the id of the server with the number 0 in raft, which nobody is to see.
var idOfZero = []string{"9223372036854775808", "8000000000000000"}

// namedFile is the line of zoo.cfg that names the file with the members.
var namedFile = regexp.MustCompile(`(?m)^dynamicConfigFile=.*$`)

// TestServersNumberedFromZero is an ensemble as a StatefulSet numbers it: with a server 0, which leads, is removed, and
// comes back. Whatever a client or an operator sees of it is 0.
func TestServersNumberedFromZero(t *testing.T) {
	r := startNumbered(t, true, 3, 1, map[string]string{"4lw.commands.whitelist": "*"})
	zero, one, two, three := r.Servers[0], r.Servers[1], r.Servers[2], r.Servers[3]
	r.use(zero, true)
	create(t, r.conn, "/kept", 0)
	for _, s := range r.Servers[:3] {
		if got := connect(t, s.Addr, within).SessionID() >> 56; got != int64(s.ID) {
			t.Errorf("sessions of server %d begin with %d", s.ID, got)
		}
		if conf := word(t, s, "conf"); !strings.Contains(conf, fmt.Sprintf("serverId=%d\n", s.ID)) ||
			!strings.Contains(conf, "\nserver.0=") {
			t.Errorf("conf of server %d:\n%s", s.ID, conf)
		}
	}

	if target.Selected(t) == target.Zkd {
		r.makeLeader(zero)
		for _, s := range r.Servers[:3] {
			if mntr := word(t, s, "mntr"); !strings.Contains(mntr, "\nzk_zkd_leader_id\t0\n") {
				t.Errorf("the leader that server %d tells of is not 0:\n%s", s.ID, mntr)
			}
		}
		if mntr := word(t, one, "mntr"); !strings.Contains(mntr, "\nzk_0_zkd_peer_connected\t1\n") {
			t.Errorf("server 1 does not tell of its connection to server 0:\n%s", mntr)
		}
	}

	r.use(two, true)
	r.must(nil, []string{"0"})
	r.AwaitServing(one, two)
	if config := read(t, two.ConfigPath()); strings.Contains(config, "server.0") {
		t.Errorf("zoo.cfg of server 2:\n%s", config)
	}
	zero.Stop()
	zero.Wipe()
	three.Launch()
	r.use(two, true)
	r.must(r.Lines("observer", three), nil)
	first := "dynamicConfigFile=" + filepath.Join(zero.Dir, "zoo.cfg.dynamic")
	write(t, zero.ConfigPath(), namedFile.ReplaceAllString(read(t, zero.ConfigPath()), first), 0o600)
	r.Configure(zero, r.Lines("participant", one, two, zero)...)
	zero.Launch()
	if why := ensemble.Await(within, func() (bool, string) {
		_, err := r.conn.IncrementalReconfig(r.Lines("participant", zero), nil, -1)
		return err == nil, fmt.Sprintf("server 0, which runs, is refused: %v", err)
	}); why != "" {
		t.Fatal(why)
	}
	r.AwaitMode(zero, "follower")
	data, _, err := r.conn.Get(configPath)
	if err != nil || !strings.HasPrefix(string(data), r.Lines("participant", zero)[0]) {
		t.Errorf("%s: %v, %s", configPath, err, data)
	}
	two.Kill9() // zero has its vote: two of three go on
	r.AwaitServing(zero, one)
	if got := value(t, zero, "/kept"); got != "x" {
		t.Errorf("server 0 has %q", got)
	}
	for _, s := range r.Servers {
		for _, id := range idOfZero {
			if log := s.Log(); strings.Contains(log, id) {
				t.Errorf("the log of server %d has an id of raft in it:\n%s", s.ID, log)
			}
		}
	}
}

// word asks a server for a four-letter word.
func word(t *testing.T, s *ensemble.Server, name string) string {
	t.Helper()
	text, err := s.FourLetterWord(name)
	if err != nil {
		t.Fatalf("%s of server %d: %v", name, s.ID, err)
	}
	return text
}

// makeLeader restarts whoever leads until a server does.
func (r *reconfigured) makeLeader(s *ensemble.Server) {
	r.t.Helper()
	if why := ensemble.Await(within, func() (bool, string) {
		leader := r.AwaitLeader()
		if leader == s {
			return true, ""
		}
		leader.Kill9() // who stops hands over to the same one of two that have all
		leader.Launch()
		r.AwaitServing(r.Servers[:3]...)
		return false, fmt.Sprintf("server %d leads", leader.ID)
	}); why != "" {
		r.t.Fatal(why)
	}
}
