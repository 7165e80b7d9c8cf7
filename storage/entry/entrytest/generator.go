package entrytest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
	"zkd/storage/invariants"
	"zkd/storage/schema"
)

// Generator makes random proposals about few paths and sessions, so that they meet.
type Generator struct {
	r      *rand.Rand
	time   jute.Millis
	config func() string // the present configuration of the ensemble, as a leader knows it

	// Refers says that sessions get lists of identities that proposals refer to: from entry.LevelIdentities on.
	Refers bool
}

// NewGenerator returns one that draws from r.
func NewGenerator(r *rand.Rand, config func() string) *Generator {
	return &Generator{r: r, config: config}
}

// Pick returns one of the choices.
func Pick[T any](g *Generator, choices ...T) T { return choices[g.r.IntN(len(choices))] }

// path returns a path; seldom one that is malformed.
func (g *Generator) path() string {
	switch g.r.IntN(60) {
	case 0:
		return Pick(g, "", "a", "/", "//", "/a/", "/a//b", "/zookeeper", "/zookeeper/config", "/./a", "/a/../b",
			"nul/\x00")
	case 1, 2, 3:
		return "/zookeeper/quota" + Pick(g, "", "/a", "/a/b", "/b", "/zookeeper") + Pick(g, "", "/zookeeper_limits",
			"/zookeeper_limits", "/zookeeper_stats")
	}
	var b strings.Builder
	for range 1 + g.r.IntN(3) {
		b.WriteString("/" + Pick(g, "a", "b", "c", "d-"))
	}
	return b.String()
}

// data returns data of all kinds of sizes.
func (g *Generator) data() []byte {
	switch g.r.IntN(12) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return bytes.Repeat([]byte{byte(g.r.Uint32())}, schema.InlineDataBytesMax-1+g.r.IntN(3))
	case 3:
		return bytes.Repeat([]byte{byte(g.r.Uint32())}, g.r.IntN(5000))
	}
	return binary.BigEndian.AppendUint32(nil, g.r.Uint32())[:1+g.r.IntN(4)]
}

// acl returns an ACL list; mostly the open one.
func (g *Generator) acl() []jute.ACL {
	switch g.r.IntN(20) {
	case 0:
		return nil
	case 1:
		return []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "auth"}}}
	case 2:
		return []jute.ACL{{Perms: 1, ID: jute.ID{Scheme: "world", ID: "anyone"}}}
	case 3:
		return []jute.ACL{
			{Perms: jute.Perms(g.r.IntN(32)), ID: jute.ID{Scheme: "world", ID: "anyone"}},
			{Perms: 31, ID: jute.ID{Scheme: "digest", ID: "me:x"}},
			{Perms: 31, ID: jute.ID{Scheme: "ip", ID: "10.0.0.0/8"}},
		}
	}
	return acl.Open
}

// version returns an expected version.
func (g *Generator) version() jute.Version { return Pick[jute.Version](g, -1, -1, -1, 0, 1, 2) }

// identities returns what a connection may have proven.
func (g *Generator) identities() []jute.ID {
	return Pick(g, []jute.ID{{Scheme: "ip", ID: "10.1.1.1"}}, []jute.ID{{Scheme: "ip", ID: "1.1.1.1"}},
		[]jute.ID{{Scheme: "digest", ID: "me:x"}}, []jute.ID{{Scheme: "super"}})
}

// Proposal returns a random proposal. Those that refer to lists of sessions often refer to one that is not there.
func (g *Generator) Proposal() *entry.Proposal {
	p := g.plain()
	if !g.Refers {
		return p
	}
	switch g.r.IntN(20) {
	case 0:
		p.Op, p.Body = entry.OpSetIdentities, entry.ListIdentities(g.identities())
		if g.r.IntN(20) == 0 {
			p.Body = p.Body[:len(p.Body)-1]
		}
	case 1, 2, 3:
		p.Identities, p.Reference = nil, entry.ListIdentities(g.identities()).Reference()
	}
	return p
}

// plain returns a random proposal that says itself who its client is.
func (g *Generator) plain() *entry.Proposal {
	g.time += jute.Millis(g.r.IntN(50))
	p := &entry.Proposal{
		Session: Pick(g, jute.SessionID(1), 2, 0xff, 0xffff), Time: g.time, Xid: 9,
		Flags: Pick(g, entry.FlagExtendedTypes, entry.FlagExtendedTypes|entry.FlagEnforceQuota,
			entry.FlagEnforceQuota),
		Identities: g.identities(),
	}
	if g.r.IntN(6) == 0 {
		p.Flags |= entry.FlagLocalSession
	}
	switch n := g.r.IntN(100); {
	case n == 99 && g.r.IntN(4) == 0:
		g.found(p)
	case n >= 98:
		g.reconfig(p)
	case n < 8:
		p.Op = Pick(g, jute.OpCreateSession, jute.OpCreateSession, entry.OpReattachSession)
		s := entry.SessionTxn{TimeoutMillis: int32(g.r.IntN(9)), Owner: 1}
		s.Passwd[0] = byte(g.r.IntN(2))
		p.Body = s.Append(nil)
	case n < 10:
		if p.Op = jute.OpCloseSession; g.Refers {
			p.Flags |= Pick(g, 0, entry.FlagInPieces, entry.FlagInPieces)
		}
	case n < 11:
		p.Op, p.Code = jute.OpError, jute.MarshallingError
	case n < 14:
		p.Op = jute.OpDeleteContainer
		p.Body = (&jute.PathRequest{Path: Pick(g, g.path(), "/a", "/b")}).Append(nil)
		if len(p.Body) < 6 || strings.Contains(g.pathOf(p.Body), "zookeeper") ||
			!strings.HasPrefix(g.pathOf(p.Body), "/") {
			p.Body = (&jute.PathRequest{Path: "/c"}).Append(nil)
		}
	case n < 26:
		p.Op = jute.OpMulti
		for range g.r.IntN(6) {
			op := Pick(g, jute.OpCreate, jute.OpCreate2, jute.OpDelete, jute.OpSetData, jute.OpCheck,
				jute.OpCreateContainer, jute.OpCreateTTL)
			p.Body = (&jute.MultiHeader{Type: op, Err: -1}).Append(p.Body)
			p.Body = g.record(op, p.Body)
		}
		p.Body = jute.AppendMultiEnd(p.Body)
	default:
		p.Op = Pick(g, jute.OpCreate, jute.OpCreate, jute.OpCreate2, jute.OpDelete, jute.OpDelete, jute.OpSetData,
			jute.OpSetACL,
			jute.OpCreateContainer, jute.OpCreateTTL)
		p.Body = g.record(p.Op, nil)
	}
	return p
}

// pathOf reads the path of a PathRequest.
func (g *Generator) pathOf(body []byte) string {
	d := jute.NewDecoder(body)
	var r jute.PathRequest
	r.Decode(&d)
	return r.Path
}

// record adds a random record of op.
func (g *Generator) record(op jute.Op, b []byte) []byte {
	path, data := g.path(), g.data()
	if strings.HasSuffix(path, "/zookeeper_limits") {
		data = fmt.Appendf(nil, "count=-1,bytes=-1=;byteHardLimit=%d;countHardLimit=%d", g.r.IntN(3000)-1,
			g.r.IntN(8)-1)
	}
	if strings.HasSuffix(path, "/zookeeper_stats") && op == jute.OpSetData {
		data = Pick(g, []byte("count=1,bytes=1"), []byte("nonsense"), nil)
		if data != nil && data[0] == 'n' {
			data = []byte("count=,bytes=x") // without pairs of other names, which the oracle does not keep
		}
	}
	switch op {
	case jute.OpCreateTTL:
		mode := Pick(g, jute.ModePersistentTTL, jute.ModePersistentTTL, jute.ModePersistentSequentialTTL,
			jute.ModePersistent)
		r := jute.CreateTTLRequest{Path: path, Data: data, ACL: g.acl(), Flags: mode, TTL: Pick[jute.Millis](g, 0, 1,
			100, 1000)}
		return r.Append(b)
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		mode := Pick(g, jute.ModePersistent, jute.ModePersistent, jute.ModeEphemeral, jute.ModePersistentSequential,
			jute.ModeEphemeralSequential, jute.ModeContainer, jute.ModePersistentTTL)
		if op == jute.OpCreateContainer && g.r.IntN(4) > 0 {
			mode = jute.ModeContainer
		}
		return (&jute.CreateRequest{Path: path, Data: data, ACL: g.acl(), Flags: mode}).Append(b)
	case jute.OpSetData:
		return (&jute.SetDataRequest{Path: path, Data: data, Version: g.version()}).Append(b)
	case jute.OpSetACL:
		return (&jute.SetACLRequest{Path: path, ACL: g.acl(), Version: g.version()}).Append(b)
	}
	return (&jute.PathVersionRequest{Path: path, Version: g.version()}).Append(b)
}

// ServerValue returns the value of a server's line.
func ServerValue(id int, observer bool) string {
	role := "participant"
	if observer {
		role = "observer"
	}
	return fmt.Sprintf("10.0.0.%d:2888:3888:%s;10.0.0.%d:2181", id, role, id)
}

// found makes p found the ensemble.
func (g *Generator) found(p *entry.Proposal) {
	config := fmt.Appendf(nil, "server.1=%s\nserver.2=%s\nversion=0", ServerValue(1, false), ServerValue(2, false))
	p.Op = entry.OpFoundEnsemble
	p.Body = (&entry.FoundTxn{ClusterID: entry.ClusterID{byte(1 + g.r.IntN(9))}, Config: config}).Append(nil)
}

// reconfig makes p a reconfig, mostly as a leader prepares it that has applied everything.
func (g *Generator) reconfig(p *entry.Proposal) {
	p.Op = jute.OpReconfig
	p.Flags |= Pick(g, 0, entry.FlagSingleVoter)
	p.Code = Pick(g, jute.OK, jute.OK, jute.OK, jute.OK, jute.ReconfigInProgress, jute.NewConfigNoQuorum)
	p.Identities = Pick(g, []jute.ID{{Scheme: "super"}}, []jute.ID{{Scheme: "super"}}, p.Identities)
	req := jute.ReconfigRequest{Nulls: 4, CurConfigID: Pick[int64](g, -1, -1, 3)}
	if g.r.IntN(2) == 0 {
		id := 1 + g.r.IntN(5)
		req.JoiningServers = fmt.Sprintf("server.%d=%s", id, ServerValue(id, g.r.IntN(3) == 0))
	}
	if g.r.IntN(2) == 0 {
		req.LeavingServers = Pick(g, "1", "2", "3,4", "5", "1,2,3,4,5")
	}
	present, err := ensemble.Parse(g.config())
	if err != nil {
		invariants.Violated("a configuration that came of such requests can be read", slog.Any("err", err))
	}
	if g.r.IntN(3) == 0 {
		req.CurConfigID = present.Version
	}
	body := entry.ReconfigTxn{BaseVersion: present.Version, Request: req.Append(nil)}
	if next, code, _ := present.Apply(&req, ensemble.Rules{SingleVoter: true}); code == jute.OK {
		body.Members = next.Members()
	}
	switch g.r.IntN(10) {
	case 0:
		body.BaseVersion--
	case 1:
		body.Members = ""
	}
	p.Body = slices.Clip(body.Append(nil))
}
