package ensemble_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
	"zkd/conf"
	"zkd/jute"
	"zkd/jute/client"
)

// dialLarge connects to a server with a session that does not expire while a machine is slow.
func dialLarge(t *testing.T, s *ensemble.Server) *client.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), quickWithin)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Addr: s.Client, Now: time.Now, Dial: new(net.Dialer).DialContext})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Cut)
	return c
}

// setLarge writes data to a znode that is there.
func setLarge(c *client.Conn, path string, data []byte) error {
	r := jute.SetDataRequest{Path: path, Data: data, Version: jute.AnyVersion}
	header, _, err := c.Do(jute.OpSetData, r.Append)
	if err == nil && header.Err != jute.OK {
		err = fmt.Errorf("set %s: %v", path, header.Err)
	}
	return err
}

// largeBytes is a request of which a few take a loaded machine no time.
const largeBytes = 4 << 20

// large has servers take requests as large as they can be told to.
var large = ensemble.Options{Kind: target.Zkd, Calm: true,
	JVMFlags: []string{fmt.Sprintf("-Djute.maxbuffer=%d", conf.RequestBytesMax)}}

// TestWhatCannotBeReplicatedIsRefused has servers take requests as large as they can be told to. Large ones are written
// through the leader and through a follower; those that no frame between servers can carry end their connection, and
// the writes of others go on.
func TestWhatCannotBeReplicatedIsRefused(t *testing.T) {
	e := ensemble.Start(t, large)
	leader, followers := e.AwaitLeader(), e.Followers()
	other := dialLarge(t, followers[1])
	create := jute.CreateRequest{ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}}
	for _, create.Path = range []string{"/small", "/large"} {
		if header, _, err := other.Do(jute.OpCreate, create.Append); err != nil || header.Err != jute.OK {
			t.Fatalf("create %s: %v, %v", create.Path, header.Err, err)
		}
	}
	for n, s := range []*ensemble.Server{leader, followers[0]} {
		data := bytes.Repeat([]byte{byte('a' + n)}, largeBytes)
		if err := setLarge(dialLarge(t, s), "/large", data); err != nil {
			t.Errorf("through server %d: %v", s.ID, err)
		}
		began := time.Now()
		if err := setLarge(other, "/small", data[:1]); err != nil {
			t.Errorf("the next write of another client: %v", err)
		}
		t.Logf("after %d bytes through server %d, the next write took %v", len(data), s.ID, time.Since(began))
		get := jute.PathWatchRequest{Path: "/large"}
		if header, body, err := other.Do(jute.OpGetData, get.Append); err != nil || header.Err != jute.OK ||
			!bytes.Contains(body, data) {
			t.Errorf("the data does not come back: %v, %v, %d bytes", header.Err, err, len(body))
		}
	}
	for _, s := range []*ensemble.Server{leader, followers[0]} {
		if err := setLarge(dialLarge(t, s), "/small", make([]byte, conf.RequestBytesMax)); err == nil {
			t.Errorf("a write of more than %d bytes was taken by server %d", conf.RequestBytesMax, s.ID)
		}
		began := time.Now()
		if err := setLarge(other, "/small", []byte("y")); err != nil {
			t.Errorf("the next write of another client: %v", err)
		}
		t.Logf("after one that was refused by server %d, the next write took %v", s.ID, time.Since(began))
	}
}

// TestTheLargestWritesEndNoLeadership writes ten times as much as a request may have, through the leader and through a
// follower in turn, while another client writes a little every 10 ms through the third server. All large ones succeed,
// and the leader stays what it is.
func TestTheLargestWritesEndNoLeadership(t *testing.T) {
	e := ensemble.Start(t, large)
	leader, followers := e.AwaitLeader(), e.Followers()
	other := dialLarge(t, followers[1])
	create := jute.CreateRequest{ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}}
	for _, create.Path = range []string{"/small", "/large"} {
		if header, _, err := other.Do(jute.OpCreate, create.Append); err != nil || header.Err != jute.OK {
			t.Fatalf("create %s: %v, %v", create.Path, header.Err, err)
		}
	}
	term := figure(t, leader, "zk_zkd_term")
	if term <= 0 {
		t.Fatalf("the leader says that it is in term %d", term)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		longest, n := time.Duration(0), 0
		for due := time.Now(); ; {
			if err := setLarge(other, "/small", []byte("x")); err != nil {
				t.Logf("a small write of another client: %v", err) // its server may have been too slow for it
				return
			}
			longest, n = max(longest, time.Since(due)), n+1
			select {
			case <-stop:
				t.Logf("%d small writes, the longest took %v from when it was due", n, longest)
				return
			case due = <-ticker.C:
			}
		}
	}()
	data := make([]byte, conf.RequestBytesMax-1<<10) // the rest is more than the request has besides
	through := []*client.Conn{dialLarge(t, leader), dialLarge(t, followers[0])}
	for n := range 10 {
		data[0] = byte(n)
		began := time.Now()
		if err := setLarge(through[n%2], "/large", data); err != nil {
			t.Errorf("large write %d: %v", n, err)
		}
		t.Logf("large write %d took %v", n, time.Since(began))
	}
	close(stop)
	<-done
	exists := jute.PathWatchRequest{Path: "/large"}
	// Asked where the last write was made: another server may apply it later.
	header, body, err := through[1].Do(jute.OpExists, exists.Append)
	d := jute.NewDecoder(body)
	var response jute.StatResponse
	response.Decode(&d)
	if err != nil || header.Err != jute.OK || d.Err() != nil || int(response.Stat.DataLength) != len(data) ||
		response.Stat.Version != 10 {
		t.Errorf("afterwards: %v, %v, %+v", err, header.Err, response.Stat)
	}
	for _, s := range e.Servers {
		if now := figure(t, s, "zk_zkd_term"); now != term || (s == leader) != (s.Mode() == "leader") {
			t.Errorf("server %d: mode %s in term %d, the writes began in term %d under server %d", s.ID, s.Mode(), now,
				term, leader.ID)
		}
	}
}
