package server

import (
	"fmt"
	"testing"

	"zkd/jute"
)

// BenchmarkRead answers one small read, past the network: znodes of 100 bytes that are in the cache, lists of ten and
// of a thousand children, a znode that does not exist.
func BenchmarkRead(b *testing.B) {
	r := newRig(b, nil)
	cl := r.connect(b)
	create := func(path string) {
		cl.must(jute.OpCreate, &jute.CreateRequest{Path: path, Data: make([]byte, 100), ACL: openACL}, jute.OK)
	}
	create("/a")
	create("/ten")
	for i := range 10 {
		create(fmt.Sprintf("/ten/child-%05d", i))
	}
	create("/thousand")
	for i := range 1000 {
		create(fmt.Sprintf("/thousand/child-%05d", i))
	}
	c := r.server.connections.all()[0]
	for _, bench := range []struct {
		name string
		op   jute.Op
		path string
		h    func(*queries, *request) error
	}{
		{"getData", jute.OpGetData, "/a", (*queries).getData},
		{"exists", jute.OpExists, "/a", (*queries).exists},
		{"existsNot", jute.OpExists, "/none", (*queries).exists},
		{"getChildren10", jute.OpGetChildren2, "/ten", (*queries).getChildren},
		{"getChildren1000", jute.OpGetChildren2, "/thousand", (*queries).getChildren},
		{"getChildren0", jute.OpGetChildren2, "/a", (*queries).getChildren},
	} {
		for _, watch := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/watch=%t", bench.name, watch), func(b *testing.B) {
				req := &request{xid: 1, op: bench.op,
					body: (&jute.PathWatchRequest{Path: bench.path, Watch: watch}).Append(nil)}
				b.ReportAllocs()
				for b.Loop() {
					if err := bench.h(&c.queries, req); err != nil {
						b.Fatal(err)
					}
					c.Out.Lock()
					b, mark := jute.BeginFrame(c.Out.OpenLocked()[:0]) // drop what was answered
					c.Out.EndLocked(b, mark)
					c.Out.Unlock()
				}
			})
		}
	}
}

// BenchmarkReadCounted answers small reads as a pipeline of 100 has them, with and without the counters of who does
// what. The difference is what these cost.
func BenchmarkReadCounted(b *testing.B) {
	for _, counted := range []bool{false, true} {
		b.Run(fmt.Sprintf("counted=%t", counted), func(b *testing.B) {
			r := newRig(b, func(o *Options) { o.TrafficOff = !counted })
			create := &jute.CreateRequest{Path: "/a", Data: make([]byte, 100), ACL: openACL}
			r.connect(b).must(jute.OpCreate, create, jute.OK)
			c := r.server.connections.all()[0]
			req := &request{xid: 1, op: jute.OpGetData, body: (&jute.PathWatchRequest{Path: "/a"}).Append(nil)}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%100 == 0 {
					c.metered.Flush()
				}
				if err := c.queries.getData(req); err != nil {
					b.Fatal(err)
				}
				c.Out.Lock()
				b, mark := jute.BeginFrame(c.Out.OpenLocked()[:0]) // drop what was answered
				c.Out.EndLocked(b, mark)
				c.Out.Unlock()
			}
		})
	}
}
