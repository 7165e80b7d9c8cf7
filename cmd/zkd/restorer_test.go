package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
)

// TestRestoreCommand goes back to a snapshot on a server that is alone, by HTTP, and through a restart of it.
func TestRestoreCommand(t *testing.T) {
	dir := t.TempDir()
	s, url := startOperated(t, dir)
	c := connect(t, s.addr)
	if _, err := c.Create("/kept", []byte("then"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	_, _, snapshot := command(t, http.MethodGet, url+"/commands/snapshot")
	if _, err := c.Set("/kept", []byte("now"), -1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create("/new", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	status, _, body := send(t, http.MethodPost, url+"/commands/restore", bytes.NewReader(snapshot[:len(snapshot)/2]))
	if status != http.StatusInternalServerError || !bytes.Contains(body, []byte("nothing has changed: damaged")) {
		t.Errorf("half of it: %d %s", status, body)
	}
	if data, _, err := c.Get("/kept"); err != nil || string(data) != "now" {
		t.Errorf("after a refusal: %q, %v", data, err)
	}
	status, _, body = send(t, http.MethodPost, url+"/commands/restore", bytes.NewReader(snapshot))
	if status != http.StatusOK || strings.Join(strings.Fields(string(body)), " ") !=
		`{ "last_zxid" : 5, "command" : "restore", "error" : null }` {
		t.Fatalf("%d %s", status, body)
	}
	check := func(addr string) {
		t.Helper()
		c := connect(t, addr)
		data, stat, err := c.Get("/kept")
		if err != nil || string(data) != "then" || stat.Mzxid != 2 || stat.Version != 0 {
			t.Errorf("/kept is %q, %+v, %v", data, stat, err)
		}
		if there, _, err := c.Exists("/new"); err != nil || there {
			t.Errorf("/new: %v, %v", there, err)
		}
		if _, err := c.Create("/more-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)); err != nil {
			t.Error(err)
		}
	}
	check(s.addr)
	s.kill()
	s, _ = startOperated(t, dir)
	check(s.addr)
}
