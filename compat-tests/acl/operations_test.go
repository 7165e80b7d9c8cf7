package acl_test

import "zkd/jute"

// operation is one that is asked for. The znode has the ACL in question; below it is the child "c", which anyone may
// do anything to, unless leaf is set.
type operation struct {
	name string
	leaf bool
	ask  func(p *probe) outcome
}

// outcome is the letter of one answer.
type outcome byte

// The outcomes that are no code of an error.
const (
	allowed outcome = '.'
	hidden  outcome = 'h' // allowed, and the digest was not shown
	silent  outcome = '-' // the watch was set, and its event did not come
)

// The operations.
var operations = []operation{
	{name: "exists", ask: on(jute.OpExists, look)},
	{name: "getData", ask: on(jute.OpGetData, look)},
	{name: "getChildren", ask: on(jute.OpGetChildren, look)},
	{name: "getChildren2", ask: on(jute.OpGetChildren2, look)},
	{name: "getAllChildrenNumber", ask: on(jute.OpGetAllChildrenNumber, path)},
	{name: "getEphemerals", ask: on(jute.OpGetEphemerals, path)},
	{name: "sync", ask: on(jute.OpSync, path)},
	{name: "getACL", ask: getACL},
	{name: "whoAmI", ask: on(jute.OpWhoAmI, nothing)},
	{name: "setData", ask: on(jute.OpSetData, setData)},
	{name: "setACL", ask: on(jute.OpSetACL, setACL)},
	{name: "setACL to auth", ask: on(jute.OpSetACL, setACLToAuth)},
	{name: "create below", ask: on(jute.OpCreate, create("/n", jute.ModePersistent))},
	{name: "create below, ephemeral", ask: on(jute.OpCreate, create("/n", jute.ModeEphemeral))},
	{name: "create below, sequential", ask: on(jute.OpCreate, create("/n", jute.ModePersistentSequential))},
	{name: "create2 below", ask: on(jute.OpCreate2, create("/n", jute.ModePersistent))},
	{name: "createContainer below", ask: on(jute.OpCreateContainer, create("/n", jute.ModeContainer))},
	{name: "createTTL below", ask: on(jute.OpCreateTTL, createTTL)},
	{name: "create again", ask: on(jute.OpCreate, create("", jute.ModePersistent))},
	{name: "create two below", ask: on(jute.OpCreate, create("/c/n", jute.ModePersistent))},
	{name: "delete the child", ask: on(jute.OpDelete, version("/c"))},
	{name: "delete none below", ask: on(jute.OpDelete, version("/none"))},
	{name: "delete itself", leaf: true, ask: on(jute.OpDelete, version(""))},
	{name: "setData of the child", ask: on(jute.OpSetData, setDataBelow)},
	{name: "getData of the child", ask: on(jute.OpGetData, lookBelow)},
	{name: "multi: check", ask: multi(jute.OpCheck, version(""))},
	{name: "multi: setData", ask: multi(jute.OpSetData, setData)},
	{name: "multi: create", ask: multi(jute.OpCreate, create("/n", jute.ModePersistent))},
	{name: "multi: createContainer", ask: multi(jute.OpCreateContainer, create("/n", jute.ModeContainer))},
	{name: "multi: createTTL", ask: multi(jute.OpCreateTTL, createTTL)},
	{name: "multi: delete the child", ask: multi(jute.OpDelete, version("/c"))},
	{name: "multiRead: getData", ask: multiRead(jute.OpGetData, look)},
	{name: "multiRead: getChildren", ask: multiRead(jute.OpGetChildren, look)},
	{name: "addWatch, persistent", ask: on(jute.OpAddWatch, addWatch("", jute.WatchPersistent))},
	{name: "addWatch, recursive", ask: on(jute.OpAddWatch, addWatch("", jute.WatchPersistentRecursive))},
	{name: "checkWatches", ask: watched(jute.OpCheckWatches)},
	{name: "removeWatches", ask: watched(jute.OpRemoveWatches)},
	{name: "event: data, persistent", ask: event(addWatch("", jute.WatchPersistent), jute.OpSetData, setData)},
	{name: "event: data, recursive", ask: event(addWatch("", jute.WatchPersistentRecursive), jute.OpSetData, setData)},
	{name: "event: data, from above", ask: event(above, jute.OpSetData, setData)},
	{name: "event: child created, persistent", ask: event(addWatch("", jute.WatchPersistent), jute.OpCreate,
		create("/n", jute.ModePersistent))},
	{name: "event: child created, from above", ask: event(above, jute.OpCreate, create("/n", jute.ModePersistent))},
	{name: "event: child deleted, persistent", ask: event(addWatch("", jute.WatchPersistent), jute.OpDelete,
		version("/c"))},
	{name: "event: deleted, persistent", leaf: true, ask: event(addWatch("", jute.WatchPersistent), jute.OpDelete,
		version(""))},
	{name: "event: deleted, from above", leaf: true, ask: event(above, jute.OpDelete, version(""))},
	{name: "event: ACL changed, then data", ask: afterChange},
	{name: "event: created with that ACL", ask: created},
	{name: "event: missed, by setWatches", ask: missed},
}

// recorder makes the record of a request about the znode of a probe.
type recorder func(p *probe) func([]byte) []byte

// on asks for one operation.
func on(op jute.Op, record recorder) func(p *probe) outcome {
	return func(p *probe) outcome { return p.code(p.do(p.subject, op, record(p)).Err) }
}

func nothing(*probe) func([]byte) []byte { return func(b []byte) []byte { return b } }

func path(p *probe) func([]byte) []byte { return (&jute.PathRequest{Path: p.path}).Append }

func look(p *probe) func([]byte) []byte { return (&jute.PathWatchRequest{Path: p.path}).Append }

func lookBelow(p *probe) func([]byte) []byte {
	return (&jute.PathWatchRequest{Path: p.path + "/c"}).Append
}

func setData(p *probe) func([]byte) []byte {
	return (&jute.SetDataRequest{Path: p.path, Data: []byte("new"), Version: jute.AnyVersion}).Append
}

func setDataBelow(p *probe) func([]byte) []byte {
	return (&jute.SetDataRequest{Path: p.path + "/c", Version: jute.AnyVersion}).Append
}

func setACL(p *probe) func([]byte) []byte {
	return (&jute.SetACLRequest{Path: p.path, ACL: anyone, Version: jute.AnyVersion}).Append
}

func setACLToAuth(p *probe) func([]byte) []byte {
	list := []jute.ACL{{Perms: jute.PermAll, ID: id("auth", "")}}
	return (&jute.SetACLRequest{Path: p.path, ACL: list, Version: jute.AnyVersion}).Append
}

func create(below string, mode jute.CreateMode) recorder {
	return func(p *probe) func([]byte) []byte {
		return (&jute.CreateRequest{Path: p.path + below, ACL: anyone, Flags: mode}).Append
	}
}

func createTTL(p *probe) func([]byte) []byte {
	return (&jute.CreateTTLRequest{Path: p.path + "/n", ACL: anyone, Flags: jute.ModePersistentTTL,
		TTL: 3_600_000}).Append
}

func version(below string) recorder {
	return func(p *probe) func([]byte) []byte {
		return (&jute.PathVersionRequest{Path: p.path + below, Version: jute.AnyVersion}).Append
	}
}

func addWatch(below string, mode jute.AddWatchMode) recorder {
	return func(p *probe) func([]byte) []byte {
		return (&jute.AddWatchRequest{Path: p.path + below, Mode: mode}).Append
	}
}

// above watches the parent of all znodes with all that is below.
func above(*probe) func([]byte) []byte {
	return (&jute.AddWatchRequest{Path: rootPath, Mode: jute.WatchPersistentRecursive}).Append
}

// getACL asks for the ACL and looks whether a digest in it is shown.
func getACL(p *probe) outcome {
	r := p.do(p.subject, jute.OpGetACL, path(p))
	if r.Err != jute.OK {
		return p.code(r.Err)
	}
	var answer jute.GetACLResponse
	d := jute.NewDecoder(r.body)
	answer.Decode(&d)
	if d.Err() != nil || len(answer.ACL) == 0 {
		p.t.Fatalf("getACL of %s: %+v, %v", p.path, answer, d.Err())
	}
	for _, a := range answer.ACL {
		if user, digest, ok := cutDigest(a.ID); ok && digest == "x" && user != "" {
			return hidden
		}
	}
	return allowed
}

// multi asks for an operation inside a multi, behind a check of the root, which anyone may do.
func multi(op jute.Op, record recorder) func(p *probe) outcome {
	return func(p *probe) outcome {
		r := p.do(p.subject, jute.OpMulti, func(b []byte) []byte {
			b = (&jute.MultiHeader{Type: jute.OpCheck, Err: -1}).Append(b)
			b = (&jute.PathVersionRequest{Path: "/", Version: jute.AnyVersion}).Append(b)
			b = record(p)((&jute.MultiHeader{Type: op, Err: -1}).Append(b))
			return jute.AppendMultiEnd(b)
		})
		return p.second(r, op)
	}
}

// multiRead asks for an operation inside a multiRead.
func multiRead(op jute.Op, record recorder) func(p *probe) outcome {
	return func(p *probe) outcome {
		r := p.do(p.subject, jute.OpMultiRead, func(b []byte) []byte {
			b = record(p)((&jute.MultiHeader{Type: op, Err: -1}).Append(b))
			return jute.AppendMultiEnd(b)
		})
		d := jute.NewDecoder(r.body)
		results := jute.NewMultiDecoder(&d)
		if r.Err != jute.OK || !results.Next() {
			p.t.Fatalf("multiRead of %s: %v, %v", p.path, r.Err, d.Err())
		}
		return p.code(results.Header().Err)
	}
}

// watched sets a watch, which anyone may, and asks about it.
func watched(op jute.Op) func(p *probe) outcome {
	return func(p *probe) outcome {
		p.must(p.subject, jute.OpAddWatch, addWatch("", jute.WatchPersistent)(p))
		return p.code(p.do(p.subject, op, (&jute.WatcherTypeRequest{Path: p.path, Type: jute.WatcherAny}).Append).Err)
	}
}

// event has a watch set and the superuser make a change, and looks whether the event comes.
func event(watch recorder, op jute.Op, change recorder) func(p *probe) outcome {
	return func(p *probe) outcome {
		p.must(p.subject, jute.OpAddWatch, watch(p))
		p.must(p.admin, op, change(p))
		return p.heard()
	}
}

// afterChange has the ACL changed to one that grants nothing, or all, and then the data: the ACL at the event counts.
func afterChange(p *probe) outcome {
	p.must(p.subject, jute.OpAddWatch, addWatch("", jute.WatchPersistent)(p))
	list := anyone
	if p.perms&jute.PermRead != 0 {
		list = []jute.ACL{{Perms: jute.PermAll &^ jute.PermRead, ID: id("world", "anyone")}}
	}
	p.must(p.admin, jute.OpSetACL, (&jute.SetACLRequest{Path: p.path, ACL: list, Version: jute.AnyVersion}).Append)
	p.must(p.admin, jute.OpSetData, setData(p))
	return p.heard()
}

// created watches a znode that is not there, and has it made with the ACL in question.
func created(p *probe) outcome {
	p.path += "x"
	p.do(p.subject, jute.OpExists, (&jute.PathWatchRequest{Path: p.path, Watch: true}).Append)
	p.must(p.owner, jute.OpCreate, (&jute.CreateRequest{Path: p.path, ACL: p.list(p.perms)}).Append)
	return p.heard()
}

// missed says by setWatches that it has seen nothing yet of the znode's data.
func missed(p *probe) outcome {
	p.must(p.subject, jute.OpSetWatches, (&jute.SetWatchesRequest{RelativeZxid: 1, Data: []string{p.path},
		Exist: []string{}, Child: []string{}}).Append)
	return p.heard()
}

// second is the outcome of the second operation of a multi.
func (p *probe) second(r reply, op jute.Op) outcome {
	p.t.Helper()
	d := jute.NewDecoder(r.body)
	results := jute.NewMultiDecoder(&d)
	if r.Err != jute.OK || !results.Next() {
		p.t.Fatalf("multi with %v of %s: %v, %v", op, p.path, r.Err, d.Err())
	}
	if results.Header().Type != jute.OpError {
		return allowed
	}
	var failure jute.ErrorResponse
	failure.Decode(&d)
	if !results.Next() {
		p.t.Fatalf("multi with %v of %s has no second result: %v", op, p.path, d.Err())
	}
	failure.Decode(&d)
	return p.code(failure.Err)
}
