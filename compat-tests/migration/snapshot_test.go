package migration_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// TestSnapshotCommand takes a snapshot of a zkd that runs, by the admin command, and starts the real server from it.
func TestSnapshotCommand(t *testing.T) {
	target.Require(t, target.ToolsOf(target.Zookeeper)...)
	port := strconv.Itoa(target.FreePort(t))
	server := target.Start(t, target.Options{Kind: target.Zkd, Config: map[string]string{
		"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": port,
	}})
	conn := connect(t, 40*time.Second, server.Addr)
	load(t, server.Addr, 300, 2)
	fill(t, conn, true)
	want := walk(t, server.Addr)
	name, content := takeSnapshot(t, "http://127.0.0.1:"+port+"/commands/snapshot")
	server.Stop()

	to := filepath.Join(server.Dir, "back")
	must(t, os.MkdirAll(filepath.Join(to, "version-2"), 0o750))
	must(t, os.WriteFile(filepath.Join(to, "version-2", name), content, 0o600))
	startOn(t, server, to)
	sameWalk(t, "snapshot", want, walk(t, server.Addr))
	if n := digestMismatches(t, server); n != "0" {
		t.Errorf("ZooKeeper has found %q digests that do not fit", n)
	}
}

// takeSnapshot returns a snapshot and the name of its file.
func takeSnapshot(t *testing.T, url string) (name string, content []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	r.Header.Set("Authorization", "digest "+target.SuperUser+":"+target.SuperPassword)
	client := http.Client{Timeout: waitWithin}
	response, err := client.Do(r)
	must(t, err)
	defer response.Body.Close() //nolint:errcheck // it was read
	content, err = io.ReadAll(response.Body)
	must(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the command snapshot answers %s: %s", response.Status, content)
	}
	return "snapshot." + strings.TrimPrefix(response.Header.Get("Last_zxid"), "0x"), content
}
