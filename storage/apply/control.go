package apply

import (
	"errors"
	"fmt"

	"zkd/jute"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// foundEnsemble makes the state that of an ensemble, once: it gets the cluster id and the configuration, which
// /zookeeper/config shows. It fails with NodeExists if there is a cluster id, with BadArguments for one of zeros.
func (t *Txn) foundEnsemble(r *Result) {
	var body entry.FoundTxn
	if body.Decode(t.p.Body) != nil {
		r.Code = jute.MarshallingError
		return
	}
	switch {
	case body.ClusterID == entry.ClusterID{}:
		r.Code = jute.BadArguments
	case t.Ensemble != nil:
		r.Code = jute.NodeExists
	default:
		t.setConfig(body.ClusterID, string(body.Config), r)
	}
}

// reconfig gives the ensemble another configuration (PrepRequestProcessor.pRequest2Txn, OpCode.reconfig). It computes
// it from the present one, as the proposer has done before; if the present one is not the one that the proposer has
// seen, what the proposer makes of the result would not fit the state: that is ReconfigInProgress, and the client may
// try again. Without an ensemble it fails with Unimplemented, as a standalone server does.
func (t *Txn) reconfig(r *Result) {
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
	if t.Ensemble == nil {
		r.Code = jute.Unimplemented
		return
	}
	if t.p.Code == jute.ReconfigInProgress {
		r.Code = t.p.Code
		return
	}
	present, err := ensemble.Parse(t.Ensemble.Config)
	if err != nil { // it was founded with what is none
		r.Code = jute.SystemError
		return
	}
	rules := ensemble.Rules{
		SingleVoter: t.p.Flags&entry.FlagSingleVoter != 0, MultiAddress: t.p.Flags&entry.FlagMultiAddress != 0,
		AnyNumber: t.Level >= entry.LevelNumbers,
	}
	next, code, _ := present.Apply(request, rules)
	node := t.tree.look(schema.ConfigPath)
	switch {
	case code != jute.OK:
		r.Code = code
	case t.p.Code != jute.OK:
		r.Code = t.p.Code
	case node.cur == nil || !t.access.allowed(node.cur, jute.PermWrite):
		r.Code = jute.NoAuth
	case body.BaseVersion != present.Version || body.Members != next.Members():
		r.Code = jute.ReconfigInProgress
	default:
		next.Version = int64(t.Position.Zxid)
		t.setConfig(t.Ensemble.Cluster, next.Text(), r)
	}
}

// setConfig makes text the configuration and the data of /zookeeper/config, with the Stat that ZooKeeper gives it
// (ZKDatabase.initConfigInZKDatabase, DataTree.processTxn): version is always -1, and nothing but mzxid and mtime
// tells of the change. It fires the watches of a SetData.
func (t *Txn) setConfig(cluster entry.ClusterID, text string, r *Result) {
	c := t.tree.look(schema.ConfigPath)
	if c.cur == nil { // it cannot be deleted
		r.Code = jute.NoNode
		return
	}
	n := t.tree.modify(c)
	n.Version = -1
	n.Mzxid, n.Mtime = t.Position.Zxid, t.p.Time
	before := int64(n.DataLen)
	n.SetData([]byte(text))
	c.dataChanged = true
	t.quotas.countLater(c.path, "", int64(n.DataLen)-before, 0)
	t.Ensemble = &schema.EnsembleRecord{Cluster: cluster, Config: text}
	t.event(jute.EventNodeDataChanged, c.path, n.ACL)
	r.Stat, r.Data = n.Stat(), []byte(text)
}

// refuse answers a proposal of a load that cannot be.
func (r *Result) refuse(code jute.Code, format string, args ...any) {
	r.Code, r.Refusal = code, fmt.Sprintf(format, args...)
}

// loadBody decodes the body of a proposal of a load, and is false if it is none.
func (t *Txn) loadBody(r *Result) (body entry.LoadTxn, ok bool) {
	if err := body.Decode(t.p.Body); err != nil {
		r.refuse(jute.MarshallingError, "%v", err)
		return body, false
	}
	return body, true
}

// uploading tells whether body is about the upload that is under way; else it is refused.
func (t *Txn) uploading(body *entry.LoadTxn, r *Result) bool {
	if t.upload.is != nil && t.upload.is.ID == body.Upload {
		return true
	}
	r.refuse(jute.BadArguments, "the upload is gone: another restore has begun, or it was given up")
	return false
}

// loadBegin begins an upload.
func (t *Txn) loadBegin(r *Result) {
	if body, ok := t.loadBody(r); ok {
		t.upload.begin(body.Upload)
	}
}

// loadChunk adds to the upload.
func (t *Txn) loadChunk(r *Result) {
	body, ok := t.loadBody(r)
	switch n := len(body.Data); {
	case !ok || !t.uploading(&body, r):
	case n == 0 || n > entry.LoadChunkBytesMax:
		r.refuse(jute.BadArguments, "a piece of %d bytes, of 1 to %d are taken", n, entry.LoadChunkBytesMax)
	case body.Offset != t.upload.is.Bytes:
		r.refuse(jute.BadArguments, "a piece for offset %d of an upload of %d bytes", body.Offset, t.upload.is.Bytes)
	default:
		t.upload.add(body.Data)
	}
}

// loadAbort drops the upload.
func (t *Txn) loadAbort(r *Result) {
	if body, ok := t.loadBody(r); ok && t.uploading(&body, r) {
		t.upload.drop()
	}
}

// loadCommit has the state built that follows, beside the present one, which stays as it is until the other one is
// put into its place. Whatever is wrong with the upload is a result, and the upload is gone.
func (t *Txn) loadCommit(r *Result) {
	body, ok := t.loadBody(r)
	switch {
	case !ok:
	case !t.alone:
		r.refuse(jute.BadArguments, "the end of an upload is not alone in its entry")
	case !t.uploading(&body, r):
	case body.Offset != t.upload.is.Bytes:
		r.refuse(jute.BadArguments, "an upload of %d bytes ends at %d", t.upload.is.Bytes, body.Offset)
	default:
		t.load(body.Sum, r)
	}
}

// load has the state of the upload built.
func (t *Txn) load(sum uint64, r *Result) {
	l := &Load{Position: t.Position, Bytes: t.upload.is.Bytes, Sum: sum, Ensemble: t.Ensemble, Level: t.Level,
		Sessions: t.base.Sessions}
	if config := t.tree.look(schema.ConfigPath); config.cur != nil {
		n := *config.cur
		n.Data, n.DataLoaded = t.tree.data(config), true
		l.Config = &n
	}
	if t.tree.err != nil {
		return
	}
	zxid, refused, err := t.replacement.Build(l)
	switch {
	case err != nil:
		t.tree.fail(err)
	case refused != nil:
		t.upload.drop()
		r.refuse(jute.DataInconsistency, "%v", refused)
	default:
		t.Replaced = true
		t.Position.Zxid = zxid
		r.Zxid = zxid
	}
}

// checkLevel refuses a proposal that this program does not know, or that the ensemble's level or its entry's version
// does not allow: who wrote it can do more, and to go on without it would be to part from the others.
func (t *Txn) checkLevel() error {
	p := &t.p
	switch needs := p.Level(); {
	case needs == 0:
		return fmt.Errorf("%w: it does not know operation %d with flags %#x", entry.ErrLevel, p.Op, p.Flags)
	case needs > t.version:
		return fmt.Errorf("operation %d with flags %#x is of feature level %d, and its entry of %d: report this",
			p.Op, p.Flags, needs, t.version)
	case needs > t.Level && p.Op != entry.OpRaiseLevel:
		return fmt.Errorf("operation %d with flags %#x is of feature level %d, and the ensemble at %d: report this",
			p.Op, p.Flags, needs, t.Level)
	}
	return nil
}

// raiseLevel raises the ensemble's level. It changes nothing, and answers NodeExists, if that is as high already, and
// BadArguments if another ensemble is meant.
func (t *Txn) raiseLevel(r *Result) {
	var body entry.RaiseTxn
	if body.Decode(t.p.Body) != nil {
		r.Code = jute.MarshallingError
		return
	}
	switch {
	case body.Cluster != entry.ClusterID{} && body.Cluster != t.Ensemble.ClusterID():
		r.Code = jute.BadArguments
	case body.Level <= t.Level:
		r.Code = jute.NodeExists
	default:
		t.Level = body.Level
	}
}

// A state that has parted from the others' looks well to itself: every znode of it is whole. So the leader has all
// members take the sums of their states at the same place of the log, a checksum point, and when it knows theirs it has
// all of them compare with what most have, the majority checksum. Neither changes the state, nor takes a zxid.

// point is the sums of the state before the entry at index.
type point struct {
	index uint64
	sums  entry.Sums
}

// pointsKept is how many checksum points are remembered: of a leader that stops behind one it stays without a majority
// checksum.
const pointsKept = 8

// ErrDiverged says that a state was found to be another than the ensemble's, so that it is not served.
var ErrDiverged = errors.New("this state was found to differ from the ensemble's")

// DivergedError says that the state is not the one that the ensemble has at the same place of the log. It is final.
type DivergedError struct {
	Index      uint64     // of the checksum point
	Part       string     // what differs first
	Here, Most entry.Sums // of this state, and of the ensemble
}

// Error implements error.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("the state of this server is not the ensemble's: at entry %d of the log the %s differ "+
		"(sums %#x %#x %#x here, %#x %#x %#x there); find where with zkd inspect diff, keep a copy of the data "+
		"directory, then empty it: this server fetches everything from the others", e.Index, e.Part, e.Here.Znodes,
		e.Here.Sessions, e.Here.Rest, e.Most.Znodes, e.Most.Sessions, e.Most.Rest)
}

// compareState takes the sums of the state at a checksum point, or compares those of one with the majority's. The sums
// of a point that this server has not seen, because its state came from another one or was flushed behind it, are not
// known: then there is nothing to compare. A difference ends the server.
func (t *Txn) compareState(r *Result) {
	var body entry.CompareTxn
	if body.Decode(t.p.Body) != nil {
		r.Code = jute.MarshallingError
		return
	}
	if !t.alone {
		r.Code = jute.BadArguments // of a point inside an entry the state is not there
		return
	}
	if body.Index == 0 {
		if len(t.points) == pointsKept {
			t.points = append(t.points[:0], t.points[1:]...)
		}
		t.points = append(t.points, point{t.Position.Index, t.base.Sums()})
		r.Point = &entry.CompareTxn{Index: t.Position.Index, Sums: t.points[len(t.points)-1].sums}
		return
	}
	for _, k := range t.points {
		if k.index != body.Index {
			continue
		}
		if part := k.sums.Differs(body.Sums); part != "" {
			t.tree.err = &DivergedError{Index: k.index, Part: part, Here: k.sums, Most: body.Sums}
			return
		}
		t.Agreed = k.index
	}
}
