package server

import (
	"fmt"
	"testing"

	"zkd/jute"
	"zkd/server/auth"
)

// BenchmarkHostileMulti is a multi of 700 changes of a znode with 2,000 entries, which 50 connections with 900
// identities each watch and may not read. For as long as it is applied everybody waits.
func BenchmarkHostileMulti(b *testing.B) {
	const entries, watchers, identities, changes = 2000, 50, 900, 700
	r := newRig(b, func(o *Options) { o.Limits.Identities = auth.Bounds{Identities: 1000, Bytes: 64 << 10} })
	owner := r.connect(b)
	var list []jute.ACL
	for i := range entries {
		list = append(list, jute.ACL{Perms: jute.PermAll,
			ID: jute.ID{Scheme: auth.SchemeDigest, ID: fmt.Sprintf("nobody%d:%027d=", i, i)}})
	}
	owner.must(jute.OpCreate, &jute.CreateRequest{Path: "/n", ACL: list}, jute.OK)
	for w := range watchers {
		c := r.connect(b)
		for i := range identities {
			c.must(jute.OpAuth, &jute.AuthPacket{Scheme: auth.SchemeDigest, Auth: fmt.Appendf(nil, "u%d-%d:p", w, i)},
				jute.OK)
		}
		c.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/n", Mode: jute.WatchPersistent}, jute.OK)
	}
	super := r.connect(b)
	super.must(jute.OpAuth, &jute.AuthPacket{Scheme: auth.SchemeDigest, Auth: []byte("super:superpw")}, jute.OK)
	var body raw
	for range changes {
		body = (&jute.MultiHeader{Type: jute.OpSetData, Err: -1}).Append(body)
		body = (&jute.SetDataRequest{Path: "/n", Version: jute.AnyVersion}).Append(body)
	}
	body = jute.AppendMultiEnd(body)
	for b.Loop() {
		super.must(jute.OpMulti, body, jute.OK)
	}
}
