package inspect

import (
	"strings"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// Operation is what a proposal asks for, in a few words.
type Operation struct {
	Op        jute.Op
	Path      string // "" for operations that are about none
	DataBytes int    // of the data, or of the configuration
	// Unreadable says that the record cannot be read: the answer was MarshallingError.
	Unreadable bool
}

// Operations tells what p asks for: one operation, or those of a multi behind the multi itself. What it returns is
// independent of p.
func Operations(p *entry.Proposal) []Operation {
	d := jute.NewDecoder(p.Body)
	if p.Op != jute.OpMulti {
		return []Operation{describeOperation(p.Op, p.Body, &d)}
	}
	all := []Operation{{Op: p.Op}}
	ops := jute.NewMultiDecoder(&d)
	for ops.Next() {
		o := describeOperation(ops.Header().Type, nil, &d)
		all = append(all, o)
		if o.Unreadable {
			break
		}
	}
	all[0].Unreadable = d.Err() != nil
	return all
}

// describeOperation reads one operation's record. body is all of it, outside a multi.
func describeOperation(op jute.Op, body []byte, d *jute.Decoder) Operation {
	o := Operation{Op: op}
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		var r jute.CreateRequest
		r.Decode(d)
		o.Path, o.DataBytes = r.Path, len(r.Data)
	case jute.OpCreateTTL:
		var r jute.CreateTTLRequest
		r.Decode(d)
		o.Path, o.DataBytes = r.Path, len(r.Data)
	case jute.OpSetData:
		var r jute.SetDataRequest
		r.Decode(d)
		o.Path, o.DataBytes = r.Path, len(r.Data)
	case jute.OpSetACL:
		var r jute.SetACLRequest
		r.Decode(d)
		o.Path = r.Path
	case jute.OpDelete, jute.OpCheck:
		var r jute.PathVersionRequest
		r.Decode(d)
		o.Path = r.Path
	case jute.OpDeleteContainer:
		var r jute.PathRequest
		r.Decode(d)
		o.Path = r.Path
	case jute.OpReconfig:
		var r entry.ReconfigTxn
		o.Unreadable = r.Decode(body) != nil
		o.Path, o.DataBytes = schema.ConfigPath, len(r.Members)
	case entry.OpFoundEnsemble:
		var r entry.FoundTxn
		o.Unreadable = r.Decode(body) != nil
		o.Path, o.DataBytes = schema.ConfigPath, len(r.Config)
	case entry.OpLoadBegin, entry.OpLoadChunk, entry.OpLoadCommit, entry.OpLoadAbort:
		var r entry.LoadTxn
		o.Unreadable = r.Decode(body) != nil
		o.DataBytes = len(r.Data)
	case jute.OpCreateSession, entry.OpReattachSession:
		var r entry.SessionTxn
		o.Unreadable = r.Decode(body) != nil
	case entry.OpSetIdentities:
		_, err := entry.IdentityList(body).Decode()
		o.Unreadable = err != nil
	case jute.OpCloseSession, jute.OpError:
	default:
		o.Unreadable = true
	}
	o.Path = strings.Clone(o.Path)
	o.Unreadable = o.Unreadable || d.Err() != nil
	return o
}
