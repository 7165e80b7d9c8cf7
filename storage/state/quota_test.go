package state

import (
	"testing"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// TestStatsAreCountedAnewWithinAnEntry: what the entry has made, changed and deleted meanwhile counts, although the
// store is read once.
func TestStatsAreCountedAnewWithinAnEntry(t *testing.T) {
	const quota = "/zookeeper/quota/a"
	m := benchMachine(t, MachineOptions{})
	var p *entry.Proposal
	create := func(path, data string) {
		p.Body = (&jute.MultiHeader{Type: jute.OpCreate, Err: -1}).Append(p.Body)
		p.Body = (&jute.CreateRequest{Path: path, Data: []byte(data), ACL: acl.Open}).Append(p.Body)
	}
	set := func(path, data string) {
		p.Body = (&jute.MultiHeader{Type: jute.OpSetData, Err: -1}).Append(p.Body)
		p.Body = (&jute.SetDataRequest{Path: path, Data: []byte(data), Version: -1}).Append(p.Body)
	}
	remove := func(path string) {
		p.Body = (&jute.MultiHeader{Type: jute.OpDelete, Err: -1}).Append(p.Body)
		p.Body = (&jute.PathVersionRequest{Path: path, Version: -1}).Append(p.Body)
	}
	apply := func(want string, change func()) {
		t.Helper()
		p = &entry.Proposal{Op: jute.OpMulti, Session: 1}
		change()
		p.Body = jute.AppendMultiEnd(p.Body)
		var got codes
		err := m.Apply(m.AppliedIndex()+1, 1, entrytest.Entries(1, []*entry.Proposal{p})[0], &got)
		if err != nil || got[0] != jute.OK {
			t.Fatalf("%v, %v", got, err)
		}
		v := m.View()
		defer v.Close()
		if n, ok := v.Get(quota + "/zookeeper_stats"); !ok || string(n.Data()) != want {
			t.Errorf("the stats are %q, want %q", n.Data(), want)
		}
	}
	apply("count=3,bytes=6", func() {
		create("/a", "12")
		create("/a/b", "34")
		create("/ab", "no part of it")
		create(quota, "")
		create(quota+"/zookeeper_stats", "")
		remove(quota + "/zookeeper_stats")
		create("/a/c", "56")
		create(quota+"/zookeeper_stats", "")
	})
	apply("count=3,bytes=11", func() {
		remove(quota + "/zookeeper_stats")
		create(quota+"/zookeeper_stats", "") // reads the store
		remove(quota + "/zookeeper_stats")
		set("/a", "1234")
		remove("/a/b")
		create("/a/c/d", "789")
		create("/a/c/e", "gone")
		remove("/a/c/e")
		remove("/a/c/d")
		create("/a/c/d", "78901")
		create(quota+"/zookeeper_stats", "")
	})
}
