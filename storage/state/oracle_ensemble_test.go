package state

import (
	"fmt"
	"strconv"
	"strings"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// oracleEnsemble is the ensemble of an oracle. Its servers have ids of one digit.
type oracleEnsemble struct {
	cluster entry.ClusterID
	version int64
	servers [10]string // the values of their lines
}

// members returns the lines of the servers.
func (e *oracleEnsemble) members() string {
	text := ""
	for id, value := range e.servers {
		if value != "" {
			text += fmt.Sprintf("server.%d=%s\n", id, value)
		}
	}
	return text
}

// missing reports whether the proposal's session is not there.
func (o *oracle) missing(p *entry.Proposal) bool {
	s := o.sessions[p.Session]
	return s.Ending || s.ID == 0 && p.Flags&entry.FlagLocalSession == 0
}

// foundOrReconfig evaluates what founds or changes the ensemble.
func (o *oracle) foundOrReconfig(p *entry.Proposal, r *apply.Result) {
	if p.Op == entry.OpFoundEnsemble {
		var body entry.FoundTxn
		if body.Decode(p.Body) != nil {
			panic("the generator makes none")
		}
		if o.ensemble.cluster != (entry.ClusterID{}) {
			r.Code = jute.NodeExists
			return
		}
		o.ensemble.cluster = body.ClusterID
		o.ensemble.servers = [10]string{1: entrytest.ServerValue(1, false), 2: entrytest.ServerValue(2, false)}
	} else if r.Code = o.reconfig(p); r.Code != jute.OK {
		return
	}
	n := o.nodes["/zookeeper/config"]
	n.data = fmt.Appendf(nil, "%sversion=%x", o.ensemble.members(), o.ensemble.version)
	n.stat.Version, n.stat.Mzxid, n.stat.Mtime = -1, o.zxid, p.Time
	o.event(jute.EventNodeDataChanged, "/zookeeper/config", n.acl)
	r.Data, r.Stat = n.data, n.visible()
}

// reconfig evaluates a reconfig of the kinds that entrytest.Generator.reconfig makes.
func (o *oracle) reconfig(p *entry.Proposal) jute.Code {
	var body entry.ReconfigTxn
	var req jute.ReconfigRequest
	if body.Decode(p.Body) != nil {
		panic("the generator makes none")
	}
	d := jute.NewDecoder(body.Request)
	req.Decode(&d)
	next := o.ensemble
	for _, id := range strings.Split(req.LeavingServers, ",") {
		n, _ := strconv.Atoi(id)
		next.servers[n] = ""
	}
	if id, value, ok := strings.Cut(req.JoiningServers, "="); ok {
		next.servers[id[len(id)-1]-'0'] = value
	}
	voters := strings.Count(next.members(), ":participant;")
	switch {
	case o.missing(p):
		return jute.SessionExpired
	case o.ensemble.cluster == entry.ClusterID{}:
		return jute.Unimplemented
	case p.Code == jute.ReconfigInProgress:
		return p.Code
	case req.CurConfigID != -1 && req.CurConfigID != o.ensemble.version:
		return jute.BadVersion
	case voters < 1 || voters < 2 && p.Flags&entry.FlagSingleVoter == 0:
		return jute.BadArguments
	case p.Code != jute.OK:
		return p.Code
	case !acl.Allowed(o.nodes["/zookeeper/config"].acl, jute.PermWrite, p.Identities):
		return jute.NoAuth
	case body.BaseVersion != o.ensemble.version || body.Members != next.members():
		return jute.ReconfigInProgress
	}
	o.ensemble = next
	o.ensemble.version = int64(o.zxid)
	return jute.OK
}
