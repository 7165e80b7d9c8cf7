package differential_test

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"zkd/jute"
)

// verbs are the requests and their opcodes.
var verbs = map[string]jute.Op{
	"create": jute.OpCreate, "create2": jute.OpCreate2, "createContainer": jute.OpCreateContainer,
	"createTTL": jute.OpCreateTTL, "delete": jute.OpDelete, "check": jute.OpCheck, "exists": jute.OpExists,
	"getData": jute.OpGetData, "getChildren": jute.OpGetChildren, "getChildren2": jute.OpGetChildren2,
	"setData": jute.OpSetData, "getACL": jute.OpGetACL, "setACL": jute.OpSetACL, "sync": jute.OpSync,
	"getAllChildrenNumber": jute.OpGetAllChildrenNumber, "getEphemerals": jute.OpGetEphemerals,
	"deleteContainer": jute.OpDeleteContainer, "multi": jute.OpMulti, "multiRead": jute.OpMultiRead,
	"addWatch": jute.OpAddWatch, "checkWatches": jute.OpCheckWatches, "removeWatches": jute.OpRemoveWatches,
	"setWatches": jute.OpSetWatches, "setWatches2": jute.OpSetWatches2, "auth": jute.OpAuth, "sasl": jute.OpSASL,
	"reconfig": jute.OpReconfig, "ping": jute.OpPing, "whoAmI": jute.OpWhoAmI, "close": jute.OpCloseSession,
	"raw": 0,
}

// encoder writes the requests of one run of a script.
type encoder struct {
	root string    // what ~ stands for
	base jute.Zxid // what the zxids of a script count from
}

// opOf returns the opcode that a line sends.
func opOf(l line) jute.Op {
	if l.verb == "raw" {
		return jute.Op(l.number("op", 0))
	}
	return verbs[l.verb]
}

// frame adds the line's request with its length. The xid is the line's own if it names one.
func (e *encoder) frame(b []byte, l line, xid jute.Xid) ([]byte, jute.Xid, error) {
	if _, known := verbs[l.verb]; !known {
		return b, 0, fmt.Errorf("unknown verb in %q", l)
	}
	switch l.verb {
	case "ping":
		xid = jute.XidPing
	case "auth":
		xid = jute.XidAuth
	}
	xid = jute.Xid(l.number("xid", int64(xid)))
	b, mark := jute.BeginFrame(b)
	header := jute.RequestHeader{Xid: xid, Op: opOf(l)}
	b, err := e.body(header.Append(b), l)
	return jute.EndFrame(b, mark), xid, err
}

// body adds the record of one request or of one operation of a multi.
func (e *encoder) body(b []byte, l line) ([]byte, error) {
	switch l.verb {
	case "create", "create2", "createContainer", "createTTL":
		return e.create(b, l)
	case "delete", "check":
		return jute.AppendInt(e.path(b, l, 0), int32(l.number("version", -1))), nil
	case "exists", "getData", "getChildren", "getChildren2":
		return append(e.path(b, l, 0), byte(l.number("watch", 0))), nil
	case "getACL", "sync", "getAllChildrenNumber", "getEphemerals", "deleteContainer":
		return e.path(b, l, 0), nil
	case "setData":
		return jute.AppendInt(e.text(e.path(b, l, 0), l.keys["data"]), int32(l.number("version", -1))), nil
	case "setACL":
		b, err := appendACL(e.path(b, l, 0), l.keys["acl"])
		return jute.AppendInt(b, int32(l.number("version", -1))), err
	case "addWatch":
		return jute.AppendInt(e.path(b, l, 0), int32(l.number("mode", 0))), nil
	case "checkWatches", "removeWatches":
		return jute.AppendInt(e.path(b, l, 0), int32(l.number("type", 3))), nil
	case "setWatches", "setWatches2":
		return e.setWatches(b, l), nil
	case "multi", "multiRead":
		return e.multi(b, l)
	case "auth":
		return e.path(e.path(jute.AppendInt(b, 0), l, 0), l, 1), nil
	case "sasl":
		return e.path(b, l, 0), nil
	case "reconfig":
		for _, key := range []string{"joining", "leaving", "members"} {
			b = e.text(b, l.value(key, "null"))
		}
		return jute.AppendLong(b, l.number("id", -1)), nil
	case "raw":
		raw, err := hex.DecodeString(l.keys["body"])
		return append(b, raw...), err
	}
	return b, nil // ping, whoAmI, close
}

func (e *encoder) create(b []byte, l line) ([]byte, error) {
	mode := map[string]int64{"createContainer": 4, "createTTL": 5}[l.verb]
	b, err := appendACL(e.text(e.path(b, l, 0), l.keys["data"]), l.value("acl", "world:anyone:31"))
	b = jute.AppendInt(b, int32(l.number("mode", mode)))
	if l.verb == "createTTL" {
		b = jute.AppendLong(b, l.number("ttl", 1000))
	}
	return b, err
}

func (e *encoder) setWatches(b []byte, l line) []byte {
	b = jute.AppendLong(b, int64(e.base)+l.number("zxid", 0))
	keys := []string{"data", "exist", "child"}
	if l.verb == "setWatches2" {
		keys = append(keys, "persistent", "recursive")
	}
	for _, key := range keys {
		list := l.keys[key]
		if list == "null" {
			b = jute.AppendInt(b, -1)
			continue
		}
		var paths []string
		if list != "" {
			paths = strings.Split(list, ",")
		}
		b = jute.AppendInt(b, int32(len(paths)))
		for _, path := range paths {
			b = e.text(b, path)
		}
	}
	return b
}

func (e *encoder) multi(b []byte, l line) ([]byte, error) {
	for _, op := range l.ops {
		header := jute.MultiHeader{Type: opOf(op), Err: -1}
		var err error
		if b, err = e.body(header.Append(b), op); err != nil {
			return b, err
		}
	}
	return jute.AppendMultiEnd(b), nil
}

// path adds the nth positional argument, the empty string when there is none.
func (e *encoder) path(b []byte, l line, n int) []byte {
	if n >= len(l.args) {
		return jute.AppendString(b, "")
	}
	return e.text(b, l.args[n])
}

// text adds a value as a string or buffer, with ~ at its beginning and {root} anywhere replaced.
func (e *encoder) text(b []byte, value string) []byte {
	text, null := unquote(value)
	if null {
		return jute.AppendInt(b, -1)
	}
	if strings.HasPrefix(text, "~") {
		text = e.root + text[1:]
	}
	return jute.AppendString(b, strings.ReplaceAll(text, "{root}", e.root))
}

// appendACL adds a list written as scheme:id:perms,….
func appendACL(b []byte, value string) ([]byte, error) {
	text, null := unquote(value)
	if null {
		return jute.AppendInt(b, -1), nil
	}
	var entries []string
	if text != "" {
		entries = strings.Split(text, ",")
	}
	b = jute.AppendInt(b, int32(len(entries)))
	for _, entry := range entries {
		scheme, rest, _ := strings.Cut(entry, ":")
		at := strings.LastIndex(rest, ":")
		if at < 0 {
			return b, fmt.Errorf("want scheme:id:perms, not %q", entry)
		}
		perms, err := strconv.ParseInt(rest[at+1:], 10, 32)
		if err != nil {
			return b, fmt.Errorf("permissions of %q: %w", entry, err)
		}
		b = jute.AppendString(jute.AppendString(jute.AppendInt(b, int32(perms)), scheme), rest[:at])
	}
	return b, nil
}

// number returns a key's number, or the default where it is missing or not a number.
func (l line) number(key string, missing int64) int64 {
	if n, err := strconv.ParseInt(l.keys[key], 10, 64); err == nil {
		return n
	}
	return missing
}

func (l line) value(key, missing string) string {
	if v, ok := l.keys[key]; ok {
		return v
	}
	return missing
}

// writes reports whether a request may change what other connections see.
func writes(l line) bool {
	switch l.verb {
	case "exists", "getData", "getChildren", "getChildren2", "getACL", "sync", "getAllChildrenNumber",
		"getEphemerals", "multiRead", "addWatch", "checkWatches", "removeWatches", "setWatches", "setWatches2",
		"auth", "sasl", "ping", "whoAmI", "await", "4lw", "drop":
		return false
	}
	return true
}
