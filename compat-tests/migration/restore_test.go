package migration_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// TestRestoreCommand sends a snapshot that a real server gives by its admin command to a zkd that runs, and one of
// zkd's back to the real server: both have the same tree each time. A client of zkd's keeps no session that the
// snapshot does not have, and hears by its watch that the tree is another one.
func TestRestoreCommand(t *testing.T) {
	start := func(kind target.Kind) (s *target.Server, url string) {
		port := strconv.Itoa(target.FreePort(t))
		s = target.Start(t, target.Options{Kind: kind, Config: map[string]string{
			"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": port,
			"admin.rateLimiterIntervalInMS": "0",
		}})
		return s, "http://127.0.0.1:" + port + "/commands/"
	}
	old, oldURL := start(target.Zookeeper)
	conn := connect(t, 40*time.Second, old.Addr)
	load(t, old.Addr, 300, 4)
	fill(t, conn, true)
	want := withoutConfig(walk(t, old.Addr))
	_, content := takeSnapshot(t, oldURL+"snapshot")

	server, url := start(target.Zkd)
	stranger := connect(t, 40*time.Second, server.Addr)
	session := stranger.SessionID()
	_, err := stranger.Create("/stranger", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	must(t, err)
	_, _, heard, err := stranger.ExistsW("/stranger")
	must(t, err)
	sendSnapshot(t, url+"restore", content)
	sameWalk(t, "restored by zkd", want, withoutConfig(walk(t, server.Addr)))
	select {
	case e := <-heard:
		if e.Err == nil && e.Type != zk.EventNodeDeleted {
			t.Errorf("the watch has fired with %+v", e)
		}
	case <-time.After(waitWithin):
		t.Error("the watch has not fired")
	}
	if why := ensemble.Await(waitWithin, func() (bool, string) { // the event may come before the end of the connection
		_, _, err := stranger.Exists("/")
		return stranger.SessionID() != session, fmt.Sprint(err)
	}); why != "" {
		t.Errorf("the session is still there: %s", why)
	}

	useAll(t, asSuper(t, server.Addr))
	want = withoutConfig(walk(t, server.Addr))
	_, content = takeSnapshot(t, url+"snapshot")
	sendSnapshot(t, oldURL+"restore", content)
	sameWalk(t, "restored by ZooKeeper", want, withoutConfig(walk(t, old.Addr)))
}

// sendSnapshot restores a snapshot.
func sendSnapshot(t *testing.T, url string, content []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(content))
	must(t, err)
	r.Header.Set("Authorization", "digest "+target.SuperUser+":"+target.SuperPassword)
	r.Header.Set("Content-Type", "application/octet-stream")
	client := http.Client{Timeout: waitWithin}
	response, err := client.Do(r)
	must(t, err)
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	must(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the command restore answers %s: %s", response.Status, body)
	}
}
