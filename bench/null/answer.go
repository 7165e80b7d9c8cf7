package null

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"zkd/jute"
)

// dataBytes is what every znode holds.
const dataBytes = 1024

// childrenMax bounds a list.
const childrenMax = 1_000_000

// answers makes replies. Safe for concurrent use.
type answers struct {
	data  [dataBytes]byte
	stat  jute.Stat
	lists sync.Map // encoded names by their number
}

// isWrite reports whether a request changes something.
func isWrite(op jute.Op) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpDelete, jute.OpSetData, jute.OpMulti, jute.OpCloseSession:
		return true
	default:
		return false
	}
}

// reply appends the framed reply to one request.
func (a *answers) reply(b []byte, header jute.RequestHeader, d *jute.Decoder) []byte {
	b, mark := jute.BeginFrame(b)
	head := len(b)
	reply := jute.ReplyHeader{Xid: header.Xid, Zxid: 1}
	b = reply.Append(b)
	b, ok := a.body(b, header.Op, d)
	if d.Err() != nil || !ok {
		reply.Err = jute.Unimplemented
		b = reply.Append(b[:head])
	}
	return jute.EndFrame(b, mark)
}

// body appends what a request is answered; false if it is not known here.
func (a *answers) body(b []byte, op jute.Op, d *jute.Decoder) ([]byte, bool) {
	switch op {
	case jute.OpPing, jute.OpCloseSession:
		return b, true
	case jute.OpMulti:
		walk := jute.NewMultiDecoder(d)
		for walk.Next() {
			result := jute.MultiHeader{Type: walk.Header().Type}
			var ok bool
			if b, ok = a.one(result.Append(b), walk.Header().Type, d); !ok {
				return b, false
			}
		}
		return jute.AppendMultiEnd(b), true
	default:
		return a.one(b, op, d)
	}
}

// one appends what a request that may be in a multi is answered.
func (a *answers) one(b []byte, op jute.Op, d *jute.Decoder) ([]byte, bool) {
	switch op {
	case jute.OpCreate, jute.OpCreate2:
		var request jute.CreateRequest
		request.Decode(d)
		path := request.Path
		if request.Flags.Sequential() {
			path += "0000000000"
		}
		b = jute.AppendString(b, path)
		if op == jute.OpCreate2 {
			b = a.stat.Append(b)
		}
	case jute.OpDelete:
		var request jute.PathVersionRequest
		request.Decode(d)
	case jute.OpSetData:
		var request jute.SetDataRequest
		request.Decode(d)
		b = a.stat.Append(b)
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		var request jute.PathWatchRequest
		request.Decode(d)
		b = a.read(b, op, request.Path)
	case jute.OpSync:
		var request jute.PathRequest
		request.Decode(d)
		b = jute.AppendString(b, request.Path)
	default:
		return b, false
	}
	return b, true
}

// read appends what is known of a znode: nothing but its name.
func (a *answers) read(b []byte, op jute.Op, path string) []byte {
	switch op {
	case jute.OpGetData:
		b = jute.AppendBuffer(b, a.data[:])
	case jute.OpGetChildren, jute.OpGetChildren2:
		b = append(b, a.list(path)...)
	}
	if op != jute.OpGetChildren {
		b = a.stat.Append(b)
	}
	return b
}

// list is the encoded list of the children that a znode's name asks for.
func (a *answers) list(path string) []byte {
	n, err := strconv.Atoi(path[strings.LastIndexByte(path, '-')+1:])
	if err != nil || n < 0 || n > childrenMax {
		n = 0
	}
	if list, ok := a.lists.Load(n); ok {
		return list.([]byte) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("c%07d", i)
	}
	list, _ := a.lists.LoadOrStore(n, jute.AppendUstrings(nil, names))
	return list.([]byte) //nolint:errcheck,forcetypeassert // nothing else is stored
}
