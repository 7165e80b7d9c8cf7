package server

import (
	"testing"

	"zkd/jute"
)

// TestQuotasTellOnlyReaders: what a quota says is for who may read what it limits, or, while that is missing, what is
// above; by getData, by multiRead and with a watch.
func TestQuotasTellOnlyReaders(t *testing.T) {
	r := newRig(t, nil)
	owner, other := r.connect(t), r.connect(t)
	owner.must(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}, jute.OK)
	const above = "/zookeeper/quota"
	stats := []string{"/zookeeper/quota/prod/zookeeper_stats", "/zookeeper/quota/prod/later/zookeeper_limits"}
	for _, path := range []string{"/prod", above + "/prod", above + "/prod/later", stats[0], stats[1]} {
		owner.must(jute.OpCreate, makeNode(path, "count=1,bytes=2", jute.ModePersistent), jute.OK)
	}
	mine := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}
	owner.must(jute.OpSetACL, &jute.SetACLRequest{Path: "/prod", ACL: mine, Version: -1}, jute.OK)
	for _, path := range stats {
		reads := multi{{jute.OpGetData, look(path)}}
		owner.must(jute.OpGetData, look(path), jute.OK)
		got := owner.must(jute.OpMultiRead, reads, jute.OK)
		wantMulti(t, &got, []jute.Op{jute.OpGetData}, nil)
		other.must(jute.OpGetData, look(path), jute.NoAuth)
		other.must(jute.OpGetData, &jute.PathWatchRequest{Path: path, Watch: true}, jute.NoAuth)
		got = other.must(jute.OpMultiRead, reads, jute.OK)
		wantMulti(t, &got, []jute.Op{jute.OpError}, []jute.Code{jute.NoAuth})
	}
	other.must(jute.OpGetChildren, look(above+"/prod"), jute.OK)
	other.must(jute.OpGetData, look(above+"/none/zookeeper_stats"), jute.NoNode)
}
