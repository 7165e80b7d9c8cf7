package state

import (
	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/space"
)

// Grows tells whether a proposal may make the state larger than there is room for at a level, as far as the request
// alone says. It is asked before a write is proposed, never in apply: servers have different room. Whether the data of
// a SetData is longer than what is there the state knows (View.Grows).
//
// Low on room nothing is made any more, and no backup restored. When room is critical data and ACLs may not be replaced
// either, as the log takes them in before anything is given back. Sessions, reconfigs and what removes always go on:
// without them nobody could make room.
func Grows(p *entry.Proposal, level space.Level) bool {
	if level == space.Ample {
		return false
	}
	switch p.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, entry.OpLoadBegin,
		entry.OpLoadChunk:
		return true
	case jute.OpSetData, jute.OpSetACL:
		return level >= space.Critical
	case jute.OpMulti:
		return multiGrows(p.Body, level, nil)
	default:
		return false
	}
}

// Grows is the function Grows that also knows the state: data that is longer than what it replaces grows.
func (v View) Grows(p *entry.Proposal, level space.Level) bool {
	switch {
	case level == space.Ample:
		return false
	case Grows(p, level):
		return true
	case p.Op == jute.OpSetData:
		var request jute.SetDataRequest
		var d jute.Decoder
		d.Reset(p.Body)
		request.Decode(&d)
		return d.Err() == nil && v.lengthens(&request)
	case p.Op == jute.OpMulti:
		return multiGrows(p.Body, level, &v)
	default:
		return false
	}
}

// lengthens tells whether a SetData makes the data of its znode longer.
func (v View) lengthens(request *jute.SetDataRequest) bool {
	n, found := v.Exists(request.Path)
	return found && len(request.Data) > int(n.Stat().DataLength)
}

// multiGrows tells whether an operation of a multi grows. v may be nil. A multi that cannot be read changes nothing.
func multiGrows(body []byte, level space.Level, v *View) bool {
	var d jute.Decoder
	d.Reset(body)
	ops := jute.NewMultiDecoder(&d)
	for ops.Next() {
		switch ops.Header().Type {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			return true
		case jute.OpSetData:
			var request jute.SetDataRequest
			request.Decode(&d)
			if level >= space.Critical || d.Err() == nil && v != nil && v.lengthens(&request) {
				return true
			}
		case jute.OpDelete, jute.OpCheck:
			var request jute.PathVersionRequest
			request.Decode(&d)
		default:
			return false
		}
	}
	return false
}
