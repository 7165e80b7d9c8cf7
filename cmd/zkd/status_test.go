package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

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

// fakeServer answers four-letter words on a port, and closes every other connection.
func fakeServer(t *testing.T, port int, answers map[string]string) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
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
	fakeServer(t, first, map[string]string{
		"srvr": fmt.Sprintf(recordedSrvr, "0x10000000a", "leader"), "mntr": fmt.Sprintf(recordedMntr, "leader"),
		"conf": fmt.Sprintf(configLines, first, first, second, third),
	})
	fakeServer(t, second, map[string]string{
		"srvr": fmt.Sprintf(recordedSrvr, "0x100000008", "follower"), "mntr": fmt.Sprintf(notListed, "mntr"),
	})
	fakeServer(t, third, map[string]string{"srvr": notServing, "mntr": notServing})
	out, err := zkd(t, "status", "--server", fmt.Sprintf("127.0.0.1:%d", first))
	if err == nil || err.Error() != "1 of 3 servers do not serve" {
		t.Errorf("%v", err)
	}
	for n, want := range []string{
		"ID ADDRESS ROLE TERM ZXID LAG CLIENTS WATCHES LATENCY VERSION",
		fmt.Sprintf("1 127.0.0.1:%d leader 1 0x10000000a 0 1 7 16/270.0/817 3.9.5", first),
		fmt.Sprintf("2 127.0.0.1:%d follower - 0x100000008 2 1 - 16/270.0/817 3.9.5", second),
		fmt.Sprintf("3 127.0.0.1:%d down - - - - - - up, but not serving: no leader, or not a member", third),
		fmt.Sprintf("term, watches of 127.0.0.1:%d: add mntr to 4lw.commands.whitelist there", second),
	} {
		lines := strings.Split(out, "\n")
		if n >= len(lines) || strings.Join(strings.Fields(lines[n]), " ") != want {
			t.Errorf("line %d: want %q in\n%s", n+1, want, out)
		}
	}
}

// TestPlacesOf reads configurations of every form.
func TestPlacesOf(t *testing.T) {
	for text, want := range map[string]string{ // any order: independent cases
		"server.1=a:1:2:participant;2181\nversion=0":       "1 a:2181",
		"server.2=[::1]:1:2;[::]:2181":                     "2 [::1]:2181",
		"server.3=a:1:2|b:1:2:observer;10.0.0.1:2182\n":    "3 10.0.0.1:2182",
		"server.1=a:1:2\nserver.2=b:1:2\nserver.3=b:3:4":   "1 a:99, 2 b:99",
		"server.x=a:1:2;2181\nserver=4\n\nclientPort=2181": "",
	} {
		var got []string
		for _, p := range placesOf(text, "asked:99") {
			got = append(got, fmt.Sprintf("%d %s", p.id, p.address))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
