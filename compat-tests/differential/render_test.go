package differential_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"zkd/jute"
)

// renderer turns frames into text that shows every field, with what may differ between two servers replaced.
type renderer struct {
	base     jute.Zxid                 // zxids are shown as distances to it
	first    jute.Zxid                 // the script's first zxid; those before are not compared
	sessions map[jute.SessionID]string // the name shown for each session of the script
}

// fields reads a frame's payload field by field; short is set once it ends inside one.
type fields struct {
	rest  []byte
	short bool
}

func (f *fields) take(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.short, f.rest = true, nil
		return make([]byte, max(0, min(n, 8)))
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) int() int32  { return int32(binary.BigEndian.Uint32(f.take(4))) }
func (f *fields) long() int64 { return int64(binary.BigEndian.Uint64(f.take(8))) }
func (f *fields) flag() byte  { return f.take(1)[0] }
func (f *fields) count() int  { return int(min(f.int(), int32(len(f.rest)))) }
func (f *fields) text() string {
	n := f.int()
	if n == -1 {
		return "null"
	}
	return fmt.Sprintf("%q", f.take(int(n)))
}

// end returns what is left over, which should be nothing.
func (f *fields) end() string {
	switch {
	case f.short:
		return " SHORT"
	case len(f.rest) > 0:
		return " LEFT=" + hex.EncodeToString(f.rest)
	}
	return ""
}

// zxid shows 0 and −1 as they are, others as a distance, but for those of changes before the script: after a
// difference in an earlier script the servers are not equally far.
func (r *renderer) zxid(z int64) string {
	if z == 0 || z == -1 {
		return fmt.Sprint(z)
	}
	if z > 0 && z < int64(r.first) {
		return "old"
	}
	return fmt.Sprintf("%+d", z-int64(r.base))
}

func (r *renderer) session(id int64) string {
	if name, ok := r.sessions[jute.SessionID(id)]; ok {
		return name
	}
	return fmt.Sprintf("%#x", uint64(id))
}

// frame returns the text of a reply to op, or of an event, and its header.
func (r *renderer) frame(op jute.Op, payload []byte) (string, jute.ReplyHeader) {
	f := &fields{rest: payload}
	h := jute.ReplyHeader{Xid: jute.Xid(f.int()), Zxid: jute.Zxid(f.long()), Err: jute.Code(f.int())}
	var b strings.Builder
	if h.Xid == jute.XidNotification {
		fmt.Fprintf(&b, "event zxid=%s err=%v type=%d state=%d %s", r.zxid(int64(h.Zxid)), h.Err, f.int(), f.int(),
			f.text())
		return b.String() + f.end(), h
	}
	fmt.Fprintf(&b, "xid=%d zxid=%s err=%v", h.Xid, r.zxid(int64(h.Zxid)), h.Err)
	// A multiRead that meets an unreadable operation answers with an error and the results it has.
	if h.Err == jute.OK || op == jute.OpMultiRead && len(f.rest) > 0 {
		b.WriteString(r.body(op, f))
	}
	return b.String() + f.end(), h
}

func (r *renderer) body(op jute.Op, f *fields) string {
	switch op {
	case jute.OpCreate, jute.OpSync:
		return " " + f.text()
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return " " + f.text() + r.stat(f)
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		return r.stat(f)
	case jute.OpGetData, jute.OpReconfig:
		return " " + f.text() + r.stat(f)
	case jute.OpGetACL:
		return acl(f) + r.stat(f)
	case jute.OpGetChildren:
		return texts(f)
	case jute.OpGetEphemerals:
		return texts(f)
	case jute.OpGetChildren2:
		return texts(f) + r.stat(f)
	case jute.OpGetAllChildrenNumber, jute.OpAddWatch:
		return fmt.Sprintf(" %d", f.int())
	case jute.OpWhoAmI:
		return whoAmI(f)
	case jute.OpSASL:
		return " " + f.text()
	case jute.OpMulti, jute.OpMultiRead:
		return r.multi(f)
	}
	return ""
}

func (r *renderer) multi(f *fields) string {
	var b strings.Builder
	for !f.short {
		kind, done, err := jute.Op(f.int()), f.flag(), jute.Code(f.int())
		fmt.Fprintf(&b, "\n      %v done=%d err=%v", kind, done, err)
		switch {
		case done != 0:
			return b.String()
		case kind == jute.OpError:
			fmt.Fprintf(&b, " %v", jute.Code(f.int()))
		default:
			b.WriteString(r.body(kind, f))
		}
	}
	return b.String()
}

// stat shows a Stat. Of the times it shows whether they are set, and that the time of a change which is the create
// is the create's.
func (r *renderer) stat(f *fields) string {
	czxid, mzxid, ctime, mtime := f.long(), f.long(), f.long(), f.long()
	version, cversion, aversion := f.int(), f.int(), f.int()
	owner, length, children, pzxid := f.long(), f.int(), f.int(), f.long()
	times := fmt.Sprintf("%t/%t", ctime != 0, mtime != 0)
	if mtime < ctime || czxid == mzxid && ctime != mtime {
		times = fmt.Sprintf("BAD %d/%d", ctime, mtime)
	}
	return fmt.Sprintf(" {c%s m%s p%s v%d cv%d av%d owner %s len %d n %d times %s}", r.zxid(czxid), r.zxid(mzxid),
		r.zxid(pzxid), version, cversion, aversion, r.session(owner), length, children, times)
}

// texts shows a list of strings, sorted.
func texts(f *fields) string {
	n := f.count()
	if n == -1 {
		return " null"
	}
	var list []string
	for range n {
		list = append(list, f.text())
	}
	slices.Sort(list)
	return " [" + strings.Join(list, " ") + "]"
}

// acl shows a list, in its order: that of the identities that scheme auth stands for is ZooKeeper's, too.
func acl(f *fields) string {
	n := f.count()
	if n == -1 {
		return " null"
	}
	var list []string
	for range n {
		list = append(list, fmt.Sprintf("%d:%s:%s", f.int(), f.text(), f.text()))
	}
	return " [" + strings.Join(list, " ") + "]"
}

// whoAmI shows the identities of a connection, in their order.
func whoAmI(f *fields) string {
	var list []string
	for range f.count() {
		list = append(list, f.text()+":"+f.text())
	}
	return " [" + strings.Join(list, " ") + "]"
}

// connectResponse shows the answer to a handshake and returns what later lines need of it.
func connectResponse(payload []byte) (text string, id jute.SessionID, passwd []byte) {
	f := &fields{rest: payload}
	proto, timeout, session := f.int(), f.int(), f.long()
	n := f.int()
	passwd = f.take(int(max(n, 0)))
	zero := strings.Trim(string(passwd), "\x00") == ""
	text = fmt.Sprintf("connected proto=%d timeout=%d session %t passwd %d bytes, zero %t", proto, timeout,
		session != 0,
		n, zero)
	if len(f.rest) > 0 {
		text += fmt.Sprintf(" ro=%d", f.flag())
	}
	return text + f.end(), jute.SessionID(session), passwd
}
