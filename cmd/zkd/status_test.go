package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// What Apache ZooKeeper 3.9.5 answers as a member of an ensemble, recorded; of mntr the lines that are read.
const (
	recordedSrvr = `Zookeeper version: 3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC
Latency min/avg/max: 16/270.0/817
Received: 4
Sent: 3
Connections: 1
Outstanding: 0
Zxid: %s
Mode: %s
Node count: 5
`
	recordedMntr = `zk_version	3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC
zk_server_state	%s
zk_num_alive_connections	1
zk_watch_count	7
`
	notListed   = "%s is not executed because it is not in the whitelist.\n"
	notServing  = "This ZooKeeper instance is not currently serving requests\n"
	configLines = `clientPort=%d
serverId=1
membership: 
server.1=127.0.0.1:33657:57217:participant;127.0.0.1:%d
server.2=127.0.0.1:44087:35915:participant;0.0.0.0:%d
server.3=[::1]:54395:54629:observer;127.0.0.1:%d
version=0
`
)

// fakeServer answers four-letter commands on a port, and closes every other connection. config is nil without TLS.
func fakeServer(t *testing.T, port int, config *tls.Config, answers map[string]string) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close() // it ends the loop
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			word := make([]byte, 4)
			if _, err := io.ReadFull(c, word); err == nil {
				_, _ = io.WriteString(c, answers[string(word)]) // who asks notices
			}
			_ = c.Close() // everything was said
		}
	}()
}

// TestStatusReadsWhatZooKeeperSays asks three servers with recorded answers: one whose mntr is not on the whitelist,
// one that has no leader.
func TestStatusReadsWhatZooKeeperSays(t *testing.T) {
	ports := target.FreePorts(t, 3)
	first, second, third := ports[0], ports[1], ports[2]
	fakeServer(t, first, nil, map[string]string{
		"srvr": fmt.Sprintf(recordedSrvr, "0x10000000a", "leader"), "mntr": fmt.Sprintf(recordedMntr, "leader") +
			"zk_uptime\t3723456\nzk_2_zkd_clock_skew_seconds\t-1800.0042\nzk_3_zkd_clock_skew_seconds\t0.4\n",
		"conf": fmt.Sprintf(configLines, first, first, second, third),
	})
	fakeServer(t, second, nil, map[string]string{
		"srvr": fmt.Sprintf(recordedSrvr, "0x100000008", "follower"), "mntr": fmt.Sprintf(notListed, "mntr"),
	})
	fakeServer(t, third, nil, map[string]string{"srvr": notServing, "mntr": notServing})
	out, err := zkd(t, "status", "--timeout", "60s", "--server", fmt.Sprintf("127.0.0.1:%d", first))
	if err == nil || err.Error() != "1 of 3 servers do not serve" {
		t.Errorf("%v", err)
	}
	for n, want := range []string{
		"ID ADDRESS ROLE TERM ZXID LAG CLIENTS WATCHES LATENCY SKEW LEVEL UPTIME FREE VERSION",
		fmt.Sprintf("1 127.0.0.1:%d leader 1 0x10000000a 0 0 7 16/270.0/817 0s - 1h2m3s - 3.9.5", first),
		fmt.Sprintf("2 127.0.0.1:%d follower - 0x100000008 2 0 - 16/270.0/817 -30m0.004s - - - 3.9.5", second),
		fmt.Sprintf("3 127.0.0.1:%d down - - - - - - - - - - up, but not serving: no leader, or not a member", third),
		"the clock of server 2 is -30m0.004s before the leader's (with a minus sign: behind): synchronise both",
		fmt.Sprintf("term, watches, feature level of 127.0.0.1:%d: add mntr to 4lw.commands.whitelist there", second),
	} {
		lines := strings.Split(out, "\n")
		if n >= len(lines) || strings.Join(strings.Fields(lines[n]), " ") != want {
			t.Errorf("line %d: want %q in\n%s", n+1, want, out)
		}
	}
}

// TestStatusShowsTheFeatureLevel of two servers of zkd, of which the ensemble could be at a higher one.
func TestStatusShowsTheFeatureLevel(t *testing.T) {
	s := ensembleStatus{Servers: []serverStatus{{ID: new(int64(1)), Role: "leader"},
		{ID: new(int64(2)), Role: "follower"}}}
	s.Servers[0].readMntr("zk_zkd_feature_level\t1\nzk_zkd_feature_level_supported\t1\n")
	s.Servers[1].readMntr("zk_zkd_feature_level\t1\nzk_zkd_feature_level_supported\t2\n")
	s.compare()
	var out strings.Builder
	if err := s.text(&out); err != nil {
		t.Fatal(err)
	}
	plain := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"2 follower - - - - - - - 1 - - - feature", "feature level 1, and server 2 can do 2",
		"zkd.featureLevelMax"} {
		if !strings.Contains(plain, want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
}

// TestStatusSaysWhomAServerMisses asks one that does not serve, and says why.
func TestStatusSaysWhomAServerMisses(t *testing.T) {
	port := target.FreePorts(t, 1)[0]
	fakeServer(t, port, nil, map[string]string{"srvr": notServing + "missing: server 2\n"})
	f := statusFlags{timeout: time.Minute}
	s := f.look(t.Context(), []place{{id: new(int64(1)), address: fmt.Sprintf("127.0.0.1:%d", port)}})
	if want := errNotServing.Error() + ": missing: server 2"; len(s.Servers) != 1 || s.Servers[0].Error != want {
		t.Errorf("%+v, want %q", s.Servers, want)
	}
}

// TestStatusOverTLS asks two servers that want TLS and a certificate: as the flags say, and as a zoo.cfg says.
func TestStatusOverTLS(t *testing.T) {
	ports := target.FreePorts(t, 2)
	end, own, roots := pemStores(t)
	wants := &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: roots,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	for _, port := range ports {
		fakeServer(t, port, wants, map[string]string{
			"srvr": fmt.Sprintf(recordedSrvr, "0x1", "standalone"), "mntr": fmt.Sprintf(recordedMntr, "standalone"),
			// The line names the port without TLS, on another host than the seed.
			"conf": "server.1=127.0.0.1:1:2:participant;127.0.0.1:3\n",
		})
	}
	file := filepath.Join(t.TempDir(), "zoo.cfg")
	text := fmt.Sprintf("dataDir=/nowhere\nsecureClientPort=%d\nsecureClientPortAddress=127.0.0.1\n"+
		"ssl.keyStore.location=%s\nssl.trustStore.location=%s\n", ports[0], end.KeyStore.Location,
		end.TrustStore.Location)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	row := func(id string, port int) string {
		return fmt.Sprintf("%s 127.0.0.1:%d standalone - 0x1 0 0 7 16/270.0/817 - - - - 3.9.5\n", id, port)
	}
	servers := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", ports[0], ports[1])
	trust, cert := "--ca-file="+end.TrustStore.Location, "--cert-file="+end.KeyStore.Location
	for _, tc := range []struct {
		args     []string
		fails    string // what the error holds; "": there is none
		contains []string
	}{
		{[]string{file}, "", []string{row("1", ports[0])}},
		{[]string{"--server", servers, "--tls", trust, cert}, "2 servers say that they lead",
			[]string{row("1", ports[0]), row("-", ports[1])}},
		{[]string{"--server", servers, "--tls", trust}, "none leads", []string{"certificate required"}},
		{[]string{"--server", servers, "--tls", cert}, "none leads", []string{"unknown authority"}},
		{[]string{"--server", servers, trust}, "without --tls", nil},
		{[]string{"--server", servers, "--tls", "--cert-file=" + end.TrustStore.Location}, "its key", nil},
	} {
		out, err := zkd(t, append([]string{"status", "--timeout", "60s"}, tc.args...)...)
		if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
			t.Errorf("%q: %v, want %q", tc.args, err, tc.fails)
		}
		plain := strings.Join(strings.Fields(out), " ") + "\n"
		for _, want := range tc.contains {
			if !strings.Contains(plain, strings.TrimSpace(want)) {
				t.Errorf("%q: want %q in\n%s", tc.args, want, out)
			}
		}
	}
}

// TestPlacesOf reads configurations of every form.
func TestPlacesOf(t *testing.T) {
	for text, want := range map[string]string{ // any order: independent cases
		"server.1=a:1:2:participant;2181\nversion=0":       "1 a:2181",
		"server.2=[::1]:1:2;[::]:2181":                     "2 [::1]:2181",
		"server.0=a:1:2;2181\nserver.1=b:1:2;2181":         "0 a:2181, 1 b:2181",
		"server.3=a:1:2|b:1:2:observer;10.0.0.1:2182\n":    "3 10.0.0.1:2182",
		"server.1=a:1:2\nserver.2=b:1:2\nserver.3=b:3:4":   "1 a:99, 2 b?, 3 b?, ? b:99",
		"server.1=b:1:2\nserver.7=b:3:4\nserverId=7":       "1 b?, 7 b:99",
		"server.1=b:1:2;99\nserver.2=b:3:4":                "1 b:99, 2 b?",
		"server.x=a:1:2;2181\nserver=4\n\nclientPort=2181": "",
	} {
		var got []string
		for _, p := range settle(placesOf(text, "asked:99", false), serverIDOf(text)) {
			id, port := "?", ""
			if p.id != nil {
				id = fmt.Sprint(*p.id)
			}
			if p.unknown {
				port = "?"
			}
			got = append(got, id+" "+p.address+port)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestStatusOfLinesWithoutPorts: servers on one machine whose lines do not say where their clients are, as in most
// files of Apache ZooKeeper. One is not shown three times, and all are once they are named.
func TestStatusOfLinesWithoutPorts(t *testing.T) {
	ports := target.FreePorts(t, 3)
	lines := ""
	for id := 1; id <= 3; id++ {
		lines += fmt.Sprintf("server.%d=127.0.0.1:%d:%d:participant\n", id, id, 10+id)
	}
	for n, port := range ports {
		role := "follower"
		if n == 1 {
			role = "leader"
		}
		answers := map[string]string{"srvr": fmt.Sprintf(recordedSrvr, "0x1", role),
			"mntr": fmt.Sprintf(recordedMntr, role),
			"conf": fmt.Sprintf("clientPort=%d\nserverId=%d\n%s", port, n+1, lines)}
		if n == 2 {
			answers["conf"] = fmt.Sprintf(notListed, "conf")
		}
		fakeServer(t, port, nil, answers)
	}
	file := filepath.Join(t.TempDir(), "zoo.cfg")
	dir := t.TempDir()
	text := fmt.Appendf(nil, "dataDir=%s\nclientPort=%d\ninitLimit=5\nsyncLimit=5\n%s", dir, ports[1], lines)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "myid"), []byte("2\n"), 0o600),
		os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	address := func(n int) string { return fmt.Sprintf("127.0.0.1:%d", ports[n]) }
	second := fmt.Sprintf("2 %s leader ", address(1))
	unknown := "127.0.0.1 unknown - - - - - - - - - - its line names no port for clients\n"
	for _, tc := range []struct {
		args  []string
		fails string
		want  []string
	}{
		{[]string{file}, "2 of 3 servers could not be asked",
			[]string{"1 " + unknown, second, "3 " + unknown, "of the servers 1, 3 name no port", "--server host:port"}},
		{[]string{"--server", address(1)}, "2 of 3 servers could not be asked", []string{"1 " + unknown, second}},
		{[]string{"--server", address(0) + "," + address(1) + "," + address(2)}, "",
			[]string{"1 " + address(0), second, "- " + address(2) + " follower"}},
	} {
		out, err := zkd(t, append([]string{"status", "--timeout", "60s"}, tc.args...)...)
		if (err == nil) != (tc.fails == "") || err != nil && err.Error() != tc.fails {
			t.Errorf("%q: %v, want %q", tc.args, err, tc.fails)
		}
		plain := ""
		for line := range strings.Lines(out) {
			plain += strings.Join(strings.Fields(line), " ") + "\n"
		}
		for _, want := range tc.want {
			if strings.Count(plain, want) != 1 {
				t.Errorf("%q: want %q once in\n%s", tc.args, want, out)
			}
		}
		if len(tc.want) == 3 && strings.Contains(plain, "unknown") {
			t.Errorf("%q: all are named:\n%s", tc.args, out)
		}
	}
}

// TestStatusTellsOfFullDisks shows whose disk is nearly full, and that writes are refused.
func TestStatusTellsOfFullDisks(t *testing.T) {
	mntr := func(total, free, low int) (s serverStatus) {
		s.readMntr(fmt.Sprintf("zk_state_zkd_disk_bytes\t%d\nzk_state_zkd_disk_free_bytes\t%d\n"+
			"zk_raftlog_zkd_disk_bytes\t1000\nzk_raftlog_zkd_disk_free_bytes\t900\nzk_zkd_low_space\t%d\n", total, free,
			low))
		return s
	}
	full, empty := mntr(1000, 149, 2), mntr(1000, 150, 0)
	full.Address, empty.Address = "full:2181", "empty:2181"
	s := ensembleStatus{Servers: []serverStatus{full, empty}}
	s.noteRoom()
	notes := strings.Join(s.Notes, "\n")
	if *full.DiskFree != 14 || *empty.DiskFree != 15 || len(s.Notes) != 2 || !strings.Contains(notes, "full:2181") ||
		!strings.Contains(notes, "SystemError") || strings.Contains(notes, "empty:2181") {
		t.Errorf("%d %% and %d %%:\n%s", *full.DiskFree, *empty.DiskFree, notes)
	}
	s = ensembleStatus{Servers: []serverStatus{empty, {}}}
	if s.noteRoom(); len(s.Notes) != 0 {
		t.Errorf("notes of servers with room: %v", s.Notes)
	}
}

// TestStatusOfPorts reads where servers listen for each other, and notes what an operator should know of it.
func TestStatusOfPorts(t *testing.T) {
	moved := serverStatus{ID: new(int64(1))}
	moved.readMntr("zk_zkd_term\t3\nzk_10.0.0.1:2889_zkd_peer_port\t1\nzk_10.0.0.1:2888_zkd_peer_port_former\t1\n" +
		"zk_2_zkd_peer_moving\t1\nzk_3_zkd_peer_moving\t0\n")
	stuck := serverStatus{ID: new(int64(2))}
	stuck.readMntr("zk_zkd_term\t3\nzk_10.0.0.2:2889_zkd_peer_port\t0\nzk_10.0.0.2:2888_zkd_peer_port_former\t1\n")
	s := ensembleStatus{Servers: []serverStatus{moved, stuck}}
	s.compare()
	want := []string{
		"server 1 listens for the others at 10.0.0.1:2889, and still at 10.0.0.1:2888",
		"server 1 has not found server 2 at its new address yet",
		"server 2 cannot listen for the others at 10.0.0.2:2889: free the address, or reconfig it to another one",
		"server 2 listens for the others at -, and still at 10.0.0.2:2888",
	}
	if !slices.Equal(s.Notes, want) {
		t.Errorf("got %q, want %q", s.Notes, want)
	}
}

// TestStatusShowsDisksThatHang asks a leader whose disk hangs, and a follower that the leader knows to acknowledge

// TestStatusNamesTheRelease: a server says its release, or the commit of a build that is none, which is cut short.
func TestStatusNamesTheRelease(t *testing.T) {
	for _, c := range []struct{ build, want string }{
		{"1.2.3", "3.9.5, zkd 1.2.3"}, {"1.2.3-rc.1.of-a-branch", "3.9.5, zkd 1.2.3-rc.1.of-a-branch"},
		{"0123456789abcdef0123456789abcdef01234567", "3.9.5, zkd 0123456789ab"},
		{"0123456789abcdef0123456789abcdef01234567-dirty", "3.9.5, zkd 0123456789ab"}, {"", "3.9.5"},
	} {
		s := serverStatus{Version: "3.9.5"}
		if c.build != "" {
			s.readMntr("zk_zkd_term\t3\nzk_" + c.build + "_zkd_build_info\t1\n")
		}
		if got := s.version(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
