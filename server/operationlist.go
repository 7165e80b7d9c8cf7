package server

import "zkd/jute"

// operationList is what reading the operations of a multi or a multiRead through has shown.
type operationList struct {
	readable bool
	writes   bool // the kind of the first operation, and so of all of a list that is readable
	nullACL  bool // the first that is wrong is a null ACL list
}

// readList reads the operations of r through, up to the first that is wrong
// (org.apache.zookeeper.MultiOperationRecord.deserialize). Within one create, unknown flags come before a null ACL
// list, and that before flags with a time to live and before standing beside reads.
func (q *records) readList(r *request) operationList {
	var d jute.Decoder
	d.Reset(r.body)
	ops := jute.NewMultiDecoder(&d)
	var list operationList
	for first := true; ops.Next(); first = false {
		record := q.multiRecord(ops.Header().Type)
		write := record != nil
		if op := ops.Header().Type; op == jute.OpGetData || op == jute.OpGetChildren {
			record = &q.pathWatch
		}
		if record == nil {
			return list
		}
		record.Decode(&d)
		if c := &q.create; record == decodable(c) && d.Err() == nil {
			list.nullACL = c.ACL == nil && c.Flags.Known()
			if c.ACL == nil || !c.Flags.Known() || c.Flags.TTL() {
				return list
			}
		}
		if !first && write != list.writes {
			return list
		}
		list.writes = write
	}
	list.readable = d.Err() == nil
	return list
}

// multiRecord returns the record of an operation that a multi may hold, or nil.
func (q *records) multiRecord(op jute.Op) decodable {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		return &q.create
	case jute.OpCreateTTL:
		return &q.createTTL
	case jute.OpDelete, jute.OpCheck:
		return &q.version
	case jute.OpSetData:
		return &q.setData
	default:
		return nil
	}
}
