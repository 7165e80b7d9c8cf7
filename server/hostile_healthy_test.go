package server

import (
	"fmt"
	"strings"
	"sync/atomic"

	"zkd/jute"
	"zkd/storage/state"
)

// healthy is a client that knows exactly what it must read back: nobody else may touch its znodes.
type healthy struct {
	*client
	rig    *rig
	rounds int
	sent   atomic.Int64
	data   map[string]string
	stat   map[string]jute.Version
}

// healthyRoot is the znode above all of its own.
const healthyRoot = "/healthy"

// ownACL lets the user of the connection alone do anything.
var ownACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}

// newHealthy makes a client a healthy one. It is the superuser, so that it can take away what the others leave.
func newHealthy(r *rig, c *client) *healthy {
	c.t.Helper()
	h := &healthy{client: c, rig: r, data: map[string]string{}, stat: map[string]jute.Version{}}
	r.retime(h.client, testDeadline) // the timeouts here are for the others
	for _, user := range []string{"healthy:secret of the healthy", "super:superpw"} {
		h.write(encodeRequest(jute.XidAuth, jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte(user)}))
		if got := h.receive(); got.Err != jute.OK {
			c.t.Fatalf("auth: %v", got.Err)
		}
	}
	h.must(jute.OpCreate, &jute.CreateRequest{Path: healthyRoot, ACL: ownACL}, jute.OK)
	for i := range 8 {
		h.put(fmt.Sprintf("%s/%d", healthyRoot, i))
	}
	return h
}

// must makes a request, and counts it.
func (h *healthy) must(op jute.Op, body record, want jute.Code) reply {
	h.t.Helper()
	h.sent.Add(1)
	return h.client.must(op, body, want)
}

// put makes a znode.
func (h *healthy) put(path string) {
	h.t.Helper()
	h.must(jute.OpCreate, &jute.CreateRequest{Path: path, Data: []byte("0"), ACL: ownACL}, jute.OK)
	h.data[path], h.stat[path] = "0", 0
}

// work goes on until ended is closed.
func (h *healthy) work(ended <-chan struct{}) {
	h.t.Helper()
	for {
		select {
		case <-ended:
			return
		default:
		}
		h.round()
		if h.rounds%500 == 0 {
			h.sweep()
		}
	}
}

// round writes, reads back, and makes and deletes an ephemeral.
func (h *healthy) round() {
	h.t.Helper()
	h.rounds++
	path := fmt.Sprintf("%s/%d", healthyRoot, h.rounds%8)
	h.must(jute.OpSetData, &jute.SetDataRequest{Path: path, Data: fmt.Append(nil, h.rounds),
		Version: h.stat[path]}, jute.OK)
	h.data[path], h.stat[path] = fmt.Sprint(h.rounds), h.stat[path]+1
	got := h.must(jute.OpGetData, look(path), jute.OK)
	if data := got.data(h.t); data != h.data[path] {
		h.t.Fatalf("round %d: %s is %q, want %q", h.rounds, path, data, h.data[path])
	}
	own := healthyRoot + "/e"
	h.must(jute.OpCreate, &jute.CreateRequest{Path: own, ACL: ownACL, Flags: jute.ModeEphemeral}, jute.OK)
	h.must(jute.OpDelete, &jute.PathVersionRequest{Path: own, Version: 0}, jute.OK)
}

// verify reads everything back.
func (h *healthy) verify() {
	h.t.Helper()
	v := h.rig.machine.View()
	defer v.Close()
	children, _ := v.Children(healthyRoot, nil)
	if len(children) != len(h.data) {
		h.t.Errorf("children %v, want %d", children, len(h.data))
	}
	for path, want := range h.data { // order: each is looked at alone
		n, ok := v.Get(path)
		if !ok {
			h.t.Errorf("%s is gone", path)
			continue
		}
		stat := n.Stat()
		if string(n.Data()) != want || stat.Version != h.stat[path] || stat.Aversion != 0 {
			h.t.Errorf("%s is %q of version %d, ACL version %d; want %q of %d, 0", path, n.Data(), stat.Version,
				stat.Aversion, want, h.stat[path])
		}
	}
}

// sweep deletes what the others have left.
func (h *healthy) sweep() {
	h.t.Helper()
	var left []string
	v := h.rig.machine.View()
	gather(v, "/", &left)
	v.Close()
	for _, path := range left { // it may have gone, or have children again
		h.sent.Add(1)
		h.send(jute.OpDelete, &jute.PathVersionRequest{Path: path, Version: jute.AnyVersion})
		h.receive()
	}
}

// gather lists the znodes below a path that are not the healthy client's or the server's, the lowest first.
func gather(v state.View, path string, into *[]string) {
	children, _ := v.Children(path, nil)
	for _, name := range children {
		child := strings.TrimSuffix(path, "/") + "/" + name
		if child == healthyRoot || child == "/zookeeper/config" || child == "/zookeeper/quota" {
			continue
		}
		gather(v, child, into)
		if child != "/zookeeper" {
			*into = append(*into, child)
		}
	}
}
