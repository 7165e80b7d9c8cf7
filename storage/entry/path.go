package entry

import "zkd/jute"

// Path returns the path that a write of a client begins with, of a multi that of its first operation; "" if it has
// none. It stays a view of Body.
func (p *Proposal) Path() string {
	var d jute.Decoder
	d.Reset(p.Body)
	switch p.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData,
		jute.OpSetACL, jute.OpDeleteContainer:
	case jute.OpMulti:
		if ops := jute.NewMultiDecoder(&d); !ops.Next() {
			return ""
		}
	default:
		return ""
	}
	var first jute.PathRequest
	first.Decode(&d)
	return first.Path
}
