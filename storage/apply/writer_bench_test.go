package apply

import (
	"testing"

	"zkd/storage/acl"
	"zkd/storage/schema"
)

// BenchmarkSumZnode is what the sums cost for one change of a znode of 1 KiB that is in the cache.
func BenchmarkSumZnode(b *testing.B) {
	n := &schema.Znode{Path: "/bench/node-000001", ACL: acl.Open}
	n.SetData(make([]byte, 1024))
	w := &writer{changes: &Changes{}}
	header := n.AppendHeader(nil)
	c := &change{path: n.Path, base: n, cur: n}
	b.ReportAllocs()
	for b.Loop() {
		w.scratch = append(w.scratch[:0], header...)
		w.sumZnode(c)
	}
}
