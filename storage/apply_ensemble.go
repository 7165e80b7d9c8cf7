package storage

import (
	"zkd/jute"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// foundEnsemble makes the state that of an ensemble, once: it gets the cluster id and the configuration, which
// /zookeeper/config shows. It fails with NodeExists if there is a cluster id, with BadArguments for one of zeros.
func (t *txn) foundEnsemble(r *Result) {
	var body entry.FoundTxn
	if body.Decode(t.p.Body) != nil {
		r.Code = jute.MarshallingError
		return
	}
	switch {
	case body.ClusterID == entry.ClusterID{}:
		r.Code = jute.BadArguments
	case t.ensemble != nil:
		r.Code = jute.NodeExists
	default:
		t.setConfig(body.ClusterID, string(body.Config), r)
	}
}

// reconfig gives the ensemble another configuration (PrepRequestProcessor.pRequest2Txn, OpCode.reconfig). It computes
// it from the present one, as the proposer has done before; if the present one is not the one that the proposer has
// seen, what the proposer makes of the result would not fit the state: that is ReconfigInProgress, and the client may
// try again. Without an ensemble it fails with Unimplemented, as a standalone server does.
func (t *txn) reconfig(r *Result) {
	var body entry.ReconfigTxn
	request := &t.reconfigReq
	if body.Decode(t.p.Body) == nil {
		t.body.Reset(body.Request)
		request.Decode(&t.body)
	} else {
		t.body.Reset(nil)
		request.Decode(&t.body) // fails
	}
	if t.body.Err() != nil {
		r.Code = jute.MarshallingError
		return
	}
	if r.Code = t.checkSession(); r.Code != jute.OK {
		return
	}
	if t.ensemble == nil {
		r.Code = jute.Unimplemented
		return
	}
	if t.p.Code == jute.ReconfigInProgress {
		r.Code = t.p.Code
		return
	}
	present, err := ensemble.Parse(t.ensemble.Config)
	if err != nil { // it was founded with what is none
		r.Code = jute.SystemError
		return
	}
	rules := ensemble.Rules{
		SingleVoter: t.p.Flags&entry.FlagSingleVoter != 0, MultiAddress: t.p.Flags&entry.FlagMultiAddress != 0,
	}
	next, code, _ := present.Apply(request, rules)
	node := t.look(schema.ConfigPath)
	switch {
	case code != jute.OK:
		r.Code = code
	case t.p.Code != jute.OK:
		r.Code = t.p.Code
	case node.cur == nil || !t.allowed(node.cur, jute.PermWrite):
		r.Code = jute.NoAuth
	case body.BaseVersion != present.Version || body.Members != next.Members():
		r.Code = jute.ReconfigInProgress
	default:
		next.Version = int64(t.pos.Zxid)
		t.setConfig(t.ensemble.Cluster, next.Text(), r)
	}
}

// setConfig makes text the configuration and the data of /zookeeper/config, with the Stat that ZooKeeper gives it
// (ZKDatabase.initConfigInZKDatabase, DataTree.processTxn): version is always -1, and nothing but mzxid and mtime
// tells of the change. It fires the watches of a SetData.
func (t *txn) setConfig(cluster entry.ClusterID, text string, r *Result) {
	c := t.look(schema.ConfigPath)
	if c.cur == nil { // it cannot be deleted
		r.Code = jute.NoNode
		return
	}
	n := t.modify(c)
	n.Version = -1
	n.Mzxid, n.Mtime = t.pos.Zxid, t.p.Time
	before := int64(n.DataLen)
	n.SetData([]byte(text))
	c.dataChanged = true
	t.countLater(c.path, "", int64(n.DataLen)-before, 0)
	t.ensemble = &schema.EnsembleRecord{Cluster: cluster, Config: text}
	t.event(jute.EventNodeDataChanged, c.path, n.ACL)
	r.Stat, r.Data = n.Stat(), []byte(text)
}
