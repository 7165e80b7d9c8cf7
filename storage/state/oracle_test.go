package state

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// oracle is the state machine once more, as simply as can be: maps, no caches, no store, and a copy of everything
// before each multi.
type oracle struct {
	nodes    map[string]*oracleNode
	sessions map[jute.SessionID]schema.SessionInfo
	zxid     jute.Zxid
	ensemble oracleEnsemble
	events   []apply.Event // of the proposal under evaluation
	level    entry.Level
	piece    int                        // how many znodes an entry counts; 0: all
	counts   map[string]*oracleCounting // by target
	budget   *oracleBudget              // of the entry
	finished int                        // counts that have come to their end
	endPiece int                        // how many ephemerals an end in pieces deletes; 0: all
	ended    int                        // ends that have left some behind
	kept     int                        // lists of children that the machine had in memory
}

// oracleNode is a znode of an oracle.
type oracleNode struct {
	stat  jute.Stat // Cversion counts creations; EphemeralOwner is the stored one
	data  []byte
	acl   []jute.ACL
	child map[string]bool
}

// newOracle returns the state of an empty server.
func newOracle() *oracle {
	o := &oracle{nodes: map[string]*oracleNode{}, sessions: map[jute.SessionID]schema.SessionInfo{},
		counts: map[string]*oracleCounting{}, level: entry.LevelOldest}
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		o.nodes[path] = &oracleNode{data: []byte{}, acl: acl.Open, child: map[string]bool{}}
		if path != "/" {
			o.nodes[jute.ParentPath(path)].child[jute.BaseName(path)] = true
		}
	}
	o.nodes["/zookeeper/config"].acl = acl.ReadOnly
	o.nodes["/zookeeper/config"].stat.Aversion = -1
	return o
}

// copy returns a state of its own.
func (o *oracle) copy() *oracle {
	c := &oracle{nodes: map[string]*oracleNode{}, sessions: maps.Clone(o.sessions), zxid: o.zxid,
		ensemble: o.ensemble, level: o.level, piece: o.piece, counts: o.copyCounts(), budget: o.budget,
		finished: o.finished, endPiece: o.endPiece, ended: o.ended, kept: o.kept}
	for path, n := range o.nodes { // order does not matter: a map to a map
		m := *n
		m.child = maps.Clone(n.child)
		c.nodes[path] = &m
	}
	return c
}

// visible returns the Stat that clients see.
func (n *oracleNode) visible() jute.Stat {
	s := n.stat
	s.NumChildren = int32(len(n.child))
	s.Cversion = 2*s.Cversion - jute.Version(s.NumChildren)
	s.DataLength = int32(len(n.data))
	if s.EphemeralOwner < 0 {
		s.EphemeralOwner = 0 // the sessions of this test are positive
	}
	return s
}

// apply evaluates a proposal.
func (o *oracle) apply(p *entry.Proposal) apply.Result {
	o.events = nil
	switch p.Op {
	case entry.OpReattachSession, entry.OpFoundEnsemble, entry.OpCountQuota, entry.OpRaiseLevel,
		entry.OpSetIdentities:
	default:
		o.zxid++
	}
	r := apply.Result{Op: p.Op, Session: p.Session, Xid: p.Xid, Zxid: o.zxid}
	session, found := o.sessions[p.Session]
	if p.Reference != 0 && found && !session.Ending {
		if session.Identities == nil || session.Identities.Reference != p.Reference {
			r.Code = jute.SessionMoved
			return r
		}
		resolved := *p
		resolved.Identities = session.Identities.IDs
		p = &resolved
	}
	switch p.Op {
	case entry.OpSetIdentities:
		list, err := schema.NewIdentities(p.Body)
		switch {
		case err != nil:
			r.Code = jute.MarshallingError
		case !found || session.Ending:
			r.Code = jute.SessionExpired
		default:
			session.Identities = list
			o.sessions[p.Session] = session
		}
	case jute.OpError:
		r.Code = p.Code
	case entry.OpRaiseLevel:
		o.level = entry.LevelNewest
	case entry.OpCountQuota:
	case jute.OpCreateSession, entry.OpReattachSession, jute.OpCloseSession:
		o.session(p, &r)
	case entry.OpFoundEnsemble, jute.OpReconfig:
		o.foundOrReconfig(p, &r)
	case jute.OpMulti:
		o.multi(p, &r)
	default:
		d := jute.NewDecoder(p.Body)
		out := o.operation(p, p.Op, &d)
		r.Code, r.Path, r.Stat = out.Code, out.Path, out.Stat
	}
	r.Events = o.events
	return r
}

// session evaluates what makes, changes or ends a session.
func (o *oracle) session(p *entry.Proposal, r *apply.Result) {
	info, found := o.sessions[p.Session]
	if p.Op == jute.OpCloseSession {
		if !found {
			r.Code = jute.SessionExpired
			return
		}
		removed := 0
		for _, path := range slices.Sorted(maps.Keys(o.nodes)) {
			if o.nodes[path].stat.EphemeralOwner != p.Session {
				continue
			}
			if p.Flags&entry.FlagInPieces != 0 && o.endPiece > 0 && removed == o.endPiece {
				info.Ending, info.Identities, r.Unfinished = true, nil, true
				o.sessions[p.Session] = info
				o.ended++
				break
			}
			o.remove(path)
			removed++
		}
		if !r.Unfinished {
			delete(o.sessions, p.Session)
		}
		r.ClosedSession = &info
		return
	}
	var txn entry.SessionTxn
	switch {
	case txn.Decode(p.Body) != nil:
		r.Code = jute.MarshallingError
	case p.Op == jute.OpCreateSession && found:
		r.Code = jute.BadArguments
	case p.Op == entry.OpReattachSession && (!found || info.Ending || info.Passwd != txn.Passwd):
		r.Code = jute.SessionExpired
	default:
		info = schema.SessionInfo{ID: p.Session, TimeoutMillis: txn.TimeoutMillis, Passwd: txn.Passwd, Owner: txn.Owner,
			Identities: info.Identities}
		o.sessions[p.Session] = info
		r.NewSession = &info
	}
}

// multi evaluates a multi on a copy of the state.
func (o *oracle) multi(p *entry.Proposal, r *apply.Result) {
	d := jute.NewDecoder(p.Body)
	m := jute.NewMultiDecoder(&d)
	trial := o.copy()
	var budget oracleBudget
	if o.budget != nil {
		budget = *o.budget
		budget.counted = maps.Clone(budget.counted)
	}
	unreadable := false
	for m.Next() {
		if r.Code != jute.OK && trial.budget != nil {
			trial.budget = &oracleBudget{before: budget.before, counted: map[string]bool{}} // nobody comes so far
		}
		out := trial.operation(p, m.Header().Type, &d)
		unreadable = unreadable || out.Code == jute.MarshallingError
		if r.Code != jute.OK {
			out = apply.OpResult{Op: jute.OpError, Code: jute.RuntimeInconsistency}
		} else if out.Code != jute.OK {
			r.Code = out.Code
			for i := range r.Ops {
				r.Ops[i] = apply.OpResult{Op: jute.OpError}
			}
			out = apply.OpResult{Op: jute.OpError, Code: out.Code}
		}
		r.Ops = append(r.Ops, out)
	}
	if d.Err() != nil || unreadable {
		r.Code, r.Ops = jute.MarshallingError, nil
		if o.budget != nil {
			*o.budget = budget
		}
	}
	if r.Code == jute.OK {
		*o = *trial
	}
}

// operation evaluates one write; it changes nothing if it fails.
func (o *oracle) operation(p *entry.Proposal, op jute.Op, d *jute.Decoder) apply.OpResult {
	out := apply.OpResult{Op: op}
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		o.create(p, op, d, &out)
		if op != jute.OpCreate {
			out.Op = jute.OpCreate2
		}
	case jute.OpDelete, jute.OpCheck:
		var r jute.PathVersionRequest
		r.Decode(d)
		out.Code = o.deleteOrCheck(p, op, &r)
	case jute.OpDeleteContainer:
		var r jute.PathRequest
		r.Decode(d)
		out.Code = o.deleteContainer(p, r.Path)
	case jute.OpSetData:
		o.setData(p, d, &out)
	case jute.OpSetACL:
		o.setACL(p, d, &out)
	}
	return out
}

// create makes a znode.
func (o *oracle) create(p *entry.Proposal, op jute.Op, d *jute.Decoder, out *apply.OpResult) {
	var r jute.CreateTTLRequest
	if op == jute.OpCreateTTL {
		r.Decode(d)
	} else {
		var c jute.CreateRequest
		c.Decode(d)
		r = jute.CreateTTLRequest{Path: c.Path, Data: c.Data, ACL: c.ACL, Flags: c.Flags, TTL: -1}
	}
	fits := op == jute.OpCreateTTL && r.Flags.TTL() || op == jute.OpCreateContainer && r.Flags == jute.ModeContainer ||
		(op == jute.OpCreate || op == jute.OpCreate2) && r.Flags >= 0 && r.Flags <= 4
	list, aclCode := acl.Fix(r.ACL, p.Identities, acl.Digest)
	slash := strings.LastIndex(r.Path, "/")
	if p.Op == jute.OpMulti && r.Flags == jute.ModeContainer {
		out.Op = jute.OpCreate2
	}
	switch {
	case p.Op == jute.OpMulti && op != jute.OpCreateTTL && r.Flags.TTL():
		out.Code = jute.MarshallingError
	case r.Flags.TTL() && op != jute.OpCreateContainer && p.Flags&entry.FlagExtendedTypes == 0:
		out.Code = jute.Unimplemented
	case !fits:
		out.Code = jute.BadArguments
	case r.Flags.TTL() && (r.TTL < 1 || r.TTL >= 1<<40), !r.Flags.TTL() && r.TTL >= 0:
		out.Code = jute.BadArguments
	case o.missing(p) || r.Flags.Ephemeral() && o.sessions[p.Session].ID == 0:
		out.Code = jute.SessionExpired
	case slash < 0 || strings.Contains(r.Path, "\x00"):
		out.Code = jute.BadArguments
	case aclCode != jute.OK:
		out.Code = aclCode
	}
	if out.Code != jute.OK {
		return
	}
	parentPath := r.Path[:slash]
	if parentPath == "" {
		parentPath = "/"
	}
	parent := o.nodes[parentPath]
	if parent == nil {
		out.Code = jute.NoNode
		return
	}
	path := r.Path
	if r.Flags.Sequential() {
		path += fmt.Sprintf("%010d", parent.stat.Cversion)
	}
	switch owner := parent.stat.EphemeralOwner; {
	case !acl.Allowed(parent.acl, jute.PermCreate, p.Identities):
		out.Code = jute.NoAuth
	case !jute.ValidPath(path), path == "/zookeeper/quota/zookeeper_limits":
		out.Code = jute.BadArguments
	case o.nodes[path] != nil && !o.leftover(path):
		out.Code = jute.NodeExists
	case owner > 0:
		out.Code = jute.NoChildrenForEphemerals
	case !o.mayLimit(p, path):
		out.Code = jute.NoAuth
	default:
		out.Code = o.overQuota(p, path, len(r.Data), 1)
	}
	if out.Code != jute.OK {
		return
	}
	if o.nodes[path] != nil {
		o.remove(path)
	}
	n := &oracleNode{data: slices.Clone(r.Data), acl: list, child: map[string]bool{}}
	n.stat = jute.Stat{Czxid: o.zxid, Mzxid: o.zxid, Pzxid: o.zxid, Ctime: p.Time, Mtime: p.Time}
	switch {
	case r.Flags.Ephemeral():
		n.stat.EphemeralOwner = p.Session
	case r.Flags == jute.ModeContainer:
		n.stat.EphemeralOwner = -1 << 63
	case r.Flags.TTL():
		n.stat.EphemeralOwner = -1<<56 + jute.SessionID(r.TTL)
	}
	o.nodes[path] = n
	parent.child[jute.BaseName(path)] = true
	parent.stat.Cversion++
	parent.stat.Pzxid = o.zxid
	out.Path, out.Stat = strings.Clone(path), n.visible()
	begun := o.countBegun(path)
	if target, ok := strings.CutSuffix(path, "/zookeeper_stats"); ok && strings.HasPrefix(path, "/zookeeper/quota/") {
		o.recount(strings.TrimPrefix(target, "/zookeeper/quota"), n)
	}
	if c := o.countBegun(path); c != begun { // it has counted path, too, which is charged as well, as by ZooKeeper
		c.znodes, c.size = c.znodes+1, c.size+len(r.Data)
	}
	o.chargeTo(path, len(r.Data), 1, begun)
	o.event(jute.EventNodeCreated, path, list)
	o.event(jute.EventNodeChildrenChanged, parentPath, parent.acl)
}

// event adds an event.
func (o *oracle) event(typ jute.EventType, path string, list []jute.ACL) {
	o.events = append(o.events, apply.Event{Type: typ, Path: strings.Clone(path), Zxid: o.zxid, ACL: list})
}

// remove deletes the znode at path.
func (o *oracle) remove(path string) {
	n, up := o.nodes[path], jute.ParentPath(path)
	parent := o.nodes[up]
	delete(o.nodes, path)
	delete(parent.child, jute.BaseName(path))
	parent.stat.Pzxid = o.zxid
	o.endCount(path)
	o.charge(path, -len(n.data), -1)
	o.event(jute.EventNodeDeleted, path, n.acl)
	o.event(jute.EventNodeChildrenChanged, up, parent.acl)
}

// deleteOrCheck evaluates delete, and check inside a multi.
func (o *oracle) deleteOrCheck(p *entry.Proposal, op jute.Op, r *jute.PathVersionRequest) jute.Code {
	n, parent := o.nodes[r.Path], o.nodes[jute.ParentPath(r.Path)]
	system := r.Path == "/" || r.Path == "/zookeeper" || r.Path == "/zookeeper/quota" || r.Path == "/zookeeper/config"
	switch {
	case o.missing(p):
		return jute.SessionExpired
	case op == jute.OpDelete && (!strings.Contains(r.Path, "/") || strings.Contains(r.Path, "\x00") || system),
		op == jute.OpCheck && !jute.ValidPath(r.Path):
		return jute.BadArguments
	case op == jute.OpDelete && parent == nil:
		return jute.NoNode
	case op == jute.OpDelete && !acl.Allowed(parent.acl, jute.PermDelete, p.Identities):
		return jute.NoAuth
	case n == nil:
		return jute.NoNode
	case op == jute.OpCheck && !acl.Allowed(n.acl, jute.PermRead, p.Identities):
		return jute.NoAuth
	case r.Version != -1 && r.Version != n.stat.Version:
		return jute.BadVersion
	case op == jute.OpDelete && len(n.child) > 0:
		return jute.NotEmpty
	case op == jute.OpDelete && !o.mayLimit(p, r.Path):
		return jute.NoAuth
	}
	if op == jute.OpDelete {
		o.remove(strings.Clone(r.Path))
	}
	return jute.OK
}

// deleteContainer evaluates the removal of a container or TTL znode.
func (o *oracle) deleteContainer(p *entry.Proposal, path string) jute.Code {
	n := o.nodes[path]
	switch {
	case path == "/":
		return jute.BadArguments
	case n == nil:
		return jute.NoNode
	case len(n.child) > 0:
		return jute.NotEmpty
	case n.stat.EphemeralOwner >= 0:
		return jute.BadVersion
	case n.stat.EphemeralOwner != -1<<63 && p.Time-n.stat.Mtime <= jute.Millis(n.stat.EphemeralOwner&(1<<40-1)):
		return jute.BadVersion
	}
	o.remove(strings.Clone(path))
	return jute.OK
}

// setData replaces data.
func (o *oracle) setData(p *entry.Proposal, d *jute.Decoder, out *apply.OpResult) {
	var r jute.SetDataRequest
	r.Decode(d)
	n := o.nodes[r.Path]
	switch {
	case o.missing(p):
		out.Code = jute.SessionExpired
	case !jute.ValidPath(r.Path):
		out.Code = jute.BadArguments
	case n == nil:
		out.Code = jute.NoNode
	case !acl.Allowed(n.acl, jute.PermWrite, p.Identities), !o.mayLimit(p, r.Path):
		out.Code = jute.NoAuth
	default:
		grown := len(r.Data) - len(n.data)
		if out.Code = o.overQuota(p, r.Path, grown, 0); out.Code == jute.OK && r.Version != -1 &&
			r.Version != n.stat.Version {
			out.Code = jute.BadVersion
		}
		if out.Code != jute.OK {
			return
		}
		n.data = slices.Clone(r.Data)
		o.endCount(r.Path)
		n.stat.Version++
		n.stat.Mzxid, n.stat.Mtime = o.zxid, p.Time
		out.Stat = n.visible()
		o.charge(r.Path, grown, 0)
		o.event(jute.EventNodeDataChanged, r.Path, n.acl)
	}
}

// setACL replaces an ACL list.
func (o *oracle) setACL(p *entry.Proposal, d *jute.Decoder, out *apply.OpResult) {
	var r jute.SetACLRequest
	r.Decode(d)
	list, code := acl.Fix(r.ACL, p.Identities, acl.Digest)
	n := o.nodes[r.Path]
	switch {
	case o.missing(p):
		out.Code = jute.SessionExpired
	case !jute.ValidPath(r.Path):
		out.Code = jute.BadArguments
	case code != jute.OK:
		out.Code = code
	case n == nil:
		out.Code = jute.NoNode
	case !acl.Allowed(n.acl, jute.PermAdmin, p.Identities), !o.mayLimit(p, r.Path):
		out.Code = jute.NoAuth
	case r.Version != -1 && r.Version != n.stat.Aversion:
		out.Code = jute.BadVersion
	default:
		n.acl = list
		n.stat.Aversion++
		out.Stat = n.visible()
	}
}

// leftover tells whether the znode belongs to a session that is ending.
func (o *oracle) leftover(path string) bool {
	return o.sessions[o.nodes[path].stat.EphemeralOwner].Ending
}

// quota returns the stats znode and the limits of the longest quota above path.
func (o *oracle) quota(path string) (stats *oracleNode, limits string, ok bool) {
	for ; len(path) > 1; path = path[:strings.LastIndex(path, "/")] {
		if l := o.nodes["/zookeeper/quota"+path+"/zookeeper_limits"]; l != nil {
			s := o.nodes["/zookeeper/quota"+path+"/zookeeper_stats"]
			return s, string(l.data), s != nil
		}
	}
	return nil, "", false
}

// quotaValue returns the number behind key in a limits or stats text; -1 if there is none.
func quotaValue(text, key string) int {
	for _, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		if kv := strings.Split(pair, "="); kv[0] == key && len(kv) > 1 {
			if v, err := strconv.Atoi(kv[1]); err == nil {
				return v
			}
		}
	}
	return -1
}

// mayLimit tells whether the caller may change path, as far as it is a znode of a quota.
func (o *oracle) mayLimit(p *entry.Proposal, path string) bool {
	target, ok := strings.CutPrefix(path, "/zookeeper/quota/")
	if base := jute.BaseName(path); !ok || base != "zookeeper_limits" && base != "zookeeper_stats" ||
		o.level < entry.LevelQuotaRights {
		return true
	}
	for target = jute.ParentPath("/" + target); o.nodes[target] == nil; {
		target = jute.ParentPath(target)
	}
	return acl.Allowed(o.nodes[target].acl, jute.PermAdmin, p.Identities)
}

// overQuota refuses what a hard quota forbids.
func (o *oracle) overQuota(p *entry.Proposal, path string, bytes, count int) jute.Code {
	stats, limits, ok := o.quota(path)
	if !ok || p.Flags&entry.FlagEnforceQuota == 0 {
		return jute.OK
	}
	now := string(stats.data)
	if limit := quotaValue(limits, "countHardLimit"); count > 0 && limit > -1 &&
		quotaValue(now, "count")+count > limit {
		return jute.QuotaExceeded
	}
	if limit := quotaValue(limits, "byteHardLimit"); bytes != 0 && limit > -1 &&
		quotaValue(now, "bytes")+bytes > limit {
		return jute.QuotaExceeded
	}
	return jute.OK
}

// charge counts a change. The oracle's tests write no other pairs into stats znodes.
func (o *oracle) charge(path string, bytes, count int) {
	o.chargeTo(path, bytes, count, o.countBegun(path))
}

// countBegun returns the count under way that a change at path is charged to, or nil.
func (o *oracle) countBegun(path string) *oracleCounting {
	for target := path; len(target) > 1; target = target[:strings.LastIndex(target, "/")] {
		if o.nodes["/zookeeper/quota"+target+"/zookeeper_limits"] != nil {
			return o.counts[target]
		}
	}
	return nil
}

// chargeTo counts a change. A count c that is under way is told, and finds the change later if it is ahead of it.
func (o *oracle) chargeTo(path string, bytes, count int, c *oracleCounting) {
	if c != nil {
		c.znodes, c.size = c.znodes+count, c.size+bytes
		if isBelow(path, c.target) && oracleKey(path) > c.cursor {
			return
		}
	}
	if stats, _, ok := o.quota(path); ok {
		now := string(stats.data)
		stats.data = fmt.Appendf(nil, "count=%d,bytes=%d", quotaValue(now, "count")+count, quotaValue(now,
			"bytes")+bytes)
	}
}
