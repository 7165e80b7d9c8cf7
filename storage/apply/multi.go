package apply

import "zkd/jute"

// multi evaluates a multi: all of its operations, or, at the first failure, none (PrepRequestProcessor.pRequest,
// OpCode.multi). Nothing of it is evaluated if any part cannot be read.
func (t *Txn) multi(r *Result) {
	first := len(t.ops)
	if !t.readableMulti() {
		r.Code = jute.MarshallingError
		return
	}
	pos, events, ephemerals := t.Position, len(t.events), len(t.tree.ephemerals)
	quotaTouch := t.quotaTouch
	t.tree.beginMulti()
	r.Code = t.evaluateMulti()
	undone := r.Code != jute.OK
	t.tree.endMulti(undone)
	t.quotas.endMulti(undone)
	if !undone {
		return
	}
	clear(t.events[events:])
	t.Position, t.events, t.quotaTouch = pos, t.events[:events], quotaTouch
	t.tree.ephemerals = t.tree.ephemerals[:ephemerals]
	if r.Code == jute.MarshallingError {
		// What cannot be understood (a null where none may be) ends the whole request, as it does in ZooKeeper.
		t.ops = t.ops[:first]
	}
	failMulti(t.ops[first:])
}

// evaluateMulti evaluates the operations up to the first failure and adds a result for each of them all.
func (t *Txn) evaluateMulti() jute.Code {
	t.body.Reset(t.p.Body)
	ops := jute.NewMultiDecoder(&t.body)
	failed := jute.OK
	for ops.Next() {
		op := ops.Header().Type
		if failed != jute.OK {
			t.skipOperation(op, &t.body)
			t.ops = append(t.ops, OpResult{Op: jute.OpError, Code: jute.RuntimeInconsistency})
			continue
		}
		t.out = OpResult{}
		if failed = operations[op](t, op, &t.body, &t.out); failed != jute.OK {
			t.out = OpResult{Op: jute.OpError, Code: failed}
		}
		t.ops = append(t.ops, t.out)
	}
	return failed
}

// failMulti turns the results of operations that had succeeded before the failing one into ones that were undone.
func failMulti(ops []OpResult) {
	for i := range ops {
		if ops[i].Code != jute.OK {
			return
		}
		ops[i] = OpResult{Op: jute.OpError}
	}
}

// readableMulti reports whether the whole multi can be read, and holds only operations and flags that a multi may
// hold (org.apache.zookeeper.MultiOperationRecord.deserialize).
func (t *Txn) readableMulti() bool {
	t.body.Reset(t.p.Body)
	ops := jute.NewMultiDecoder(&t.body)
	for ops.Next() {
		if !t.skipOperation(ops.Header().Type, &t.body) {
			return false
		}
	}
	return t.body.Err() == nil
}

// skipOperation reads one operation's record and reports whether a multi may hold it.
func (t *Txn) skipOperation(op jute.Op, d *jute.Decoder) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		mode := &t.createTTLReq.Flags
		if !t.decodeCreate(op, d) || t.createTTLReq.Nulls != 0 {
			return false
		}
		return op == jute.OpCreateTTL || mode.Known() && !mode.TTL()
	case jute.OpDelete, jute.OpCheck:
		t.versionReq.Decode(d)
		if t.versionReq.Nulls != 0 {
			return false
		}
	case jute.OpSetData:
		t.setDataReq.Decode(d)
		if t.setDataReq.Nulls != 0 {
			return false
		}
	default:
		return false
	}
	return d.Err() == nil
}
