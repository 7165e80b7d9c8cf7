package console_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// TestPictures takes the pictures of the documents: three servers with something to do, for as long as a page shows. It
// is run where ZKD_PICTURES names a folder.
func TestPictures(t *testing.T) {
	dir := os.Getenv("ZKD_PICTURES")
	if dir == "" {
		t.Skip("ZKD_PICTURES names no folder")
	}
	target.Require(t, target.Chromium)
	t.Setenv("ZKD_SCREENSHOTS", dir)
	e, ports := threeServers(t)
	c := connect(t, e.Servers[0].Addr)
	value := `{"name":"orders","replicas":3,"regions":["eu-1","eu-2","us-1"],"limits":{"rate":1200,"burst":200}}`
	if _, err := c.Create("/orders", []byte(value), 0, everybody); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config", "leader", "locks", "members", "queue", "schema", "shards"} {
		if _, err := c.Create("/orders/"+name, []byte("value of "+name), 0, everybody); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, fmt.Sprintf("http://127.0.0.1:%d/console/ensemble/", ports[0]))
	b.visit("")
	begun := time.Now()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for n := 0; time.Since(begun) < 150*time.Second; n++ { // what the pictures show
		<-pace.C
		for range 1 + n/50%7 {
			if _, _, err := c.Get("/orders"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Set("/orders/leader", []byte(fmt.Sprint(n)), -1); err != nil {
			t.Fatal(err)
		}
	}
	b.shot("overview", wide, dark, narrow)
	b.tree("/orders")
	b.see("pre.value", "replicas")
	b.shot("tree", wide, dark)
}
