package server

import (
	"strings"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/fourletter"
)

// not is what most commands say of a server that does not serve.
const not = "This ZooKeeper instance is not currently serving requests\n"

// startReadOnly starts a group that has lost its leader, with /n and a session that was there before, and server 2 in
// read-only mode.
func startReadOnly(t *testing.T) (g *group, old *client) {
	t.Helper()
	g = startGroup(t, groupOptions{set: func(id uint64, o *Options) {
		noLeader(true)(id, o)
		o.Commands = fourletter.New(fourletter.Options{Whitelist: "*", ReadOnlyMode: true, Version: "v"})
		o.Conf.Member = &fourletter.MemberConf{}
	}})
	g.elect(1)
	g.serves(1, 2)
	old = g.at(2).connect(t)
	old.mustCreate("/n", "data", jute.ModePersistent)
	g.lose()
	eventually(t, "read-only mode", func() bool { return g.at(2).server.available.serving() == stateReadOnly })
	old.wantClosed()
	return g, old
}

// connectReadOnly opens a session of the read-only mode.
func (r *rig) connectReadOnly(t *testing.T) *client {
	t.Helper()
	c := r.dial(t)
	c.hello(canReadOnly(0, make([]byte, 16)))
	if c.welcome.SessionID == 0 || !c.welcome.ReadOnly {
		t.Fatalf("read-only session: %+v", c.welcome)
	}
	return c
}

func TestReadOnlyModeAnswersReadsAndRefusesWrites(t *testing.T) {
	g, old := startReadOnly(t)
	c := g.at(2).connectReadOnly(t)
	if top := uint64(c.welcome.SessionID) >> 56; top != 2 {
		t.Errorf("session %#x is not of server 2", c.welcome.SessionID)
	}
	zxid := g.at(2).machine.LastZxid()
	for op, body := range map[jute.Op]record{
		jute.OpCreate:    makeNode("/m", "", jute.ModePersistent),
		jute.OpCreateTTL: &jute.CreateTTLRequest{Path: "/m", ACL: openACL, Flags: jute.ModePersistentTTL, TTL: 5},
		jute.OpDelete:    gone("/n"),
		jute.OpSetData:   setTo("/n", "x"),
		jute.OpSetACL:    &jute.SetACLRequest{Path: "/n", ACL: openACL},
		jute.OpMulti:     raw(jute.AppendMultiEnd(nil)),
		jute.OpSync:      &jute.PathRequest{Path: "/n"},
		jute.OpReconfig:  &jute.ReconfigRequest{},
	} {
		if r := c.must(op, body, jute.NotReadOnly); r.Zxid != zxid || len(r.body) > 0 {
			t.Errorf("%v is answered with zxid %#x and %d bytes", op, r.Zxid, len(r.body))
		}
	}
	if got := c.must(jute.OpGetData, watching("/n"), jute.OK); got.data(t) != "data" {
		t.Errorf("data %q", got.data(t))
	}
	c.must(jute.OpExists, look("/missing"), jute.NoNode)
	c.must(jute.OpGetEphemerals, &jute.PathRequest{Path: "/"}, jute.OK)
	c.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/n", Mode: jute.WatchPersistent}, jute.OK)
	c.wantSilence() // ping

	for name, req := range map[string]*jute.ConnectRequest{
		"a client that wants to write":     anew(),
		"one of an old release":            {TimeoutMillis: 10_000, Passwd: make([]byte, 16)},
		"a session of the group":           canReadOnly(old.welcome.SessionID, old.welcome.Passwd),
		"a session nobody knows":           canReadOnly(12345, make([]byte, 16)),
		"a wrong password":                 canReadOnly(c.welcome.SessionID, make([]byte, 16)),
		"no password":                      canReadOnly(c.welcome.SessionID, nil),
		"one that has seen a later change": {LastZxidSeen: 1 << 40, ReadOnly: true, HasReadOnly: true},
	} {
		t.Run(name, func(t *testing.T) { g.at(2).wantTurnedAway(t, req) })
	}
	again := g.at(2).dial(t)
	again.hello(canReadOnly(c.welcome.SessionID, c.welcome.Passwd))
	c.wantClosed()
	again.must(jute.OpCloseSession, nil, jute.OK)
	again.wantClosed()
	g.at(2).wantTurnedAway(t, canReadOnly(c.welcome.SessionID, c.welcome.Passwd))
}

// TestReadOnlyClientsComeBack: when there is a leader again, they are sent away, and with a read-only session nothing
// can be done any more.
func TestReadOnlyClientsComeBack(t *testing.T) {
	g, old := startReadOnly(t)
	c := g.at(2).connectReadOnly(t)
	g.elect(3)
	g.serves(2)
	c.wantClosed()
	again := g.at(2).dial(t)
	again.hello(canReadOnly(c.welcome.SessionID, c.welcome.Passwd))
	if again.welcome.SessionID != 0 || again.welcome.TimeoutMillis != 0 {
		t.Errorf("the read-only session lives on: %+v", again.welcome)
	}
	fresh := g.at(2).dial(t)
	fresh.hello(canReadOnly(0, make([]byte, 16)))
	if fresh.welcome.SessionID == 0 || fresh.welcome.ReadOnly {
		t.Errorf("with a leader: %+v", fresh.welcome)
	}
	fresh.mustCreate("/m", "", jute.ModePersistent)
	if r := g.at(2).reattach(t, old); r.welcome.SessionID != old.welcome.SessionID {
		t.Error("the session from before is gone")
	}
	// They are forgotten after the connections are closed.
	eventually(t, "no read-only session is left", func() bool { return g.at(2).server.locals.count() == 0 })
}

func TestReadOnlySessionsExpire(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	g := startGroup(t, groupOptions{clock: now, members: 1, set: func(id uint64, o *Options) {
		noLeader(true)(id, o)
		o.MaxTimeout = 10 * time.Second
	}})
	eventually(t, "read-only mode", func() bool {
		now.Step(50 * time.Millisecond)
		return g.at(1).server.available.serving() == stateReadOnly
	})
	c := g.at(1).connectReadOnly(t)
	for range 400 {
		now.Step(50 * time.Millisecond)
		c.wantSilence()
	}
	eventually(t, "the session expires", func() bool {
		now.Step(50 * time.Millisecond)
		return g.at(1).server.locals.count() == 0
	})
	c.wantClosed()
}

// ask sends a four-letter command.
func (r *rig) ask(t *testing.T, word string) string {
	t.Helper()
	c := r.dial(t)
	c.write([]byte(word))
	return string(c.rest())
}

// wantLines waits until the answer to a command has these lines, and not those with a "-" before them: what other
// members do may come later.
func (r *rig) wantLines(t *testing.T, word string, want ...string) {
	t.Helper()
	deadline := time.Now().Add(testDeadline)
	for {
		got := r.ask(t, word)
		wrong := wrongLines(got, want)
		if len(wrong) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: lines %q are missing, or unwanted, in\n%s", word, wrong, got)
			return
		}
	}
}

// wrongLines are those of want that text lacks, or has where they begin with a minus.
func wrongLines(text string, want []string) (wrong []string) {
	lines := "\n" + text
	for _, w := range want {
		line, unwanted := strings.CutPrefix(w, "-")
		if strings.Contains(lines, "\n"+line) == unwanted {
			wrong = append(wrong, w)
		}
	}
	return wrong
}

func TestCommandsInEveryState(t *testing.T) {
	g, _ := startReadOnly(t)
	r := g.at(2).rig
	_ = g.at(2).connectReadOnly(t)
	for word, want := range map[string]string{"ruok": "imok", "isro": "ro"} {
		if got := r.ask(t, word); got != want {
			t.Errorf("read-only, %s: %q, want %q", word, got, want)
		}
	}
	r.wantLines(t, "srvr", "READ-ONLY mode; serving only read-only clients\n", "Mode: read-only\n")
	r.wantLines(t, "mntr", "zk_server_state\tread-only\n",
		"-zk_peer_state", "-zk_quorum_size", "zk_local_sessions\t1\n")
	r.wantLines(t, "conf", "peerType=0\n", "-membership")
	r.wantLines(t, "dump", "Local Session Sets (1)/(1):\n", "Global Sessions(1):\n")

	down := startGroup(t, groupOptions{members: 1}).at(1).rig
	for word, want := range map[string]string{
		"ruok": "imok", "isro": "null", "srvr": not, "stat": not, "mntr": not, "conf": not, "dump": not, "wchs": not,
		"gtmk": "306", "hash": strings.TrimSuffix(not, "\n"),
	} {
		if got := down.ask(t, word); got != want {
			t.Errorf("down, %s: %q, want %q", word, got, want)
		}
	}
}

// TestCommandsWhileTheStateIsReplaced: they do not wait for the new state, which may take long on a slow disk.
func TestCommandsWhileTheStateIsReplaced(t *testing.T) {
	g := startGroup(t, groupOptions{})
	g.elect(1)
	g.serves(1, 2)
	r := g.at(2).rig
	r.wantLines(t, "mntr", "zk_server_state\tfollower\n", "zk_znode_count\t")
	r.server.Replacing()
	for word, want := range map[string]string{"ruok": "imok", "isro": "null", "srvr": not, "mntr": not, "conf": not} {
		if got := r.ask(t, word); got != want {
			t.Errorf("while the state is replaced, %s: %q, want %q", word, got, want)
		}
	}
	if serving, znodes := figure(r.server, "zkd_serving"), figure(r.server, "znode_count"); serving+znodes != 0 {
		t.Errorf("while the state is replaced, metrics: serving %v, %v znodes", serving, znodes)
	}
	r.server.Replaced()
	r.wantLines(t, "mntr", "zk_server_state\tfollower\n", "zk_znode_count\t")
}

func TestCommandsOfRoles(t *testing.T) {
	g := startGroup(t, groupOptions{set: func(id uint64, o *Options) {
		o.Conf.Member = &fourletter.MemberConf{InitLimit: 10, Observer: id == 3}
		o.Ensemble = &Ensemble{Observer: id == 3, Members: func() Members {
			return Members{
				Voters: []uint64{1, 2}, Learners: []uint64{3}, Elections: 4, LastElection: 1500 * time.Millisecond,
				Peers: []Peer{{ID: 2, LagEntries: 7, Active: true}, {ID: 3, Active: true, Learner: true},
					{ID: 4, Active: true, Snapshotting: true}, {ID: 5}},
			}
		}}
	}})
	g.elect(1)
	g.serves(1, 2, 3)
	g.at(1).wantLines(t, "srvr", "Mode: leader\n", "Proposal sizes last/min/max: -1/-1/-1\n")
	g.at(2).wantLines(t, "stat", "Mode: follower\n", "-Proposal sizes")
	g.at(3).wantLines(t, "srvr", "Mode: observer\n", "-Proposal sizes")
	g.at(1).wantLines(t, "mntr", "zk_server_state\tleader\nzk_peer_state\tleading - broadcast\nzk_eph",
		"zk_synced_followers\t1\n", "zk_synced_observers\t1\n", "zk_synced_non_voting_followers\t0\n",
		"zk_learners\t3\n",
		"zk_pending_syncs\t0\n", "zk_quorum_size\t2\n", "zk_leader_uptime\t", "zk_last_proposal_size\t-1\n",
		"zk_min_proposal_size\t-1\n", "zk_max_proposal_size\t-1\n", "zk_2_zkd_peer_lag_entries\t7\n",
		"zk_4_zkd_peer_snapshotting\t1\n", "zk_5_zkd_peer_active\t0\n", "zk_looking_count\t4\n",
		"zk_zkd_last_election_seconds\t1.5\n", "zk_zkd_leader_id\t1\n", "zk_zkd_term\t1\n",
		"zk_leader_zkd_role\t1\n")
	g.at(2).wantLines(t, "mntr",
		"zk_server_state\tfollower\nzk_peer_state\tfollowing - broadcast\nzk_eph",
		"zk_quorum_size\t2\n", "-zk_learners", "-zk_synced_followers", "-zk_leader_uptime")
	g.at(3).wantLines(t, "mntr", "zk_server_state\tobserver\nzk_peer_state\tobserving - broadcast\n"+
		"zk_observer_master_id\t1\nzk_eph")
	g.at(3).wantLines(t, "conf", "initLimit=10\n", "peerType=1\n")
	g.at(1).wantLines(t, "dump", "Global Session Sets (0)/(0):\n", "-Local")
	_ = g.at(2).connect(t)
	g.at(2).wantLines(t, "dump", "Global Sessions(1):\n0x")
	g.at(1).wantLines(t, "mntr", "-zk_last_proposal_size\t-1\n", "-zk_min_proposal_size\t-1\n",
		"-zk_max_proposal_size\t-1\n")
	g.lose()
	g.at(2).wantLines(t, "mntr",
		"zk_server_state\tfollower\nzk_peer_state\tlooking - election\n", "zk_zkd_leader_id\t-1\n")
	if got := g.at(2).ask(t, "isro"); got != "rw" {
		t.Errorf("isro while the leader is looked for: %q", got)
	}
}
