package entrytest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
)

// errLine says that a line of a script cannot be read.
var errLine = errors.New("cannot read the line")

// opWords are the words that begin a line.
var opWords = map[string]jute.Op{
	"create": jute.OpCreate, "create2": jute.OpCreate2, "createContainer": jute.OpCreateContainer,
	"createTTL": jute.OpCreateTTL,
	"delete":    jute.OpDelete, "deleteContainer": jute.OpDeleteContainer, "setData": jute.OpSetData,
	"setACL": jute.OpSetACL,
	"check":  jute.OpCheck, "multi": jute.OpMulti, "createSession": jute.OpCreateSession,
	"closeSession": jute.OpCloseSession,
	"reattach":     entry.OpReattachSession, "error": jute.OpError, "getData": jute.OpGetData,
	"found": entry.OpFoundEnsemble, "reconfig": jute.OpReconfig, "raise": entry.OpRaiseLevel,
	"count": entry.OpCountQuota, "identities": entry.OpSetIdentities,
}

// Script reads proposals from words: the scripts of testdata, and tests.
type Script struct {
	time   jute.Millis
	config func() string // the present configuration of the ensemble, as a leader knows it
}

// NewScript returns one whose first proposal is of the time 1010.
func NewScript(config func() string) *Script { return &Script{time: 1000, config: config} }

// Proposal reads "op path key=value…". Of a multi the operations follow, separated by ";", and then, behind "|",
// what belongs to the proposal. The keys are those of operation; time advances by 10 a proposal unless given.
func (s *Script) Proposal(text string) (*entry.Proposal, error) {
	word, rest, _ := strings.Cut(text, " ")
	op, ok := opWords[word]
	if !ok {
		return nil, fmt.Errorf("%w: operation %q", errLine, word)
	}
	s.time += 10
	p := &entry.Proposal{Op: op, Session: 1, Xid: 1, Time: s.time, Flags: entry.FlagExtendedTypes | entry.FlagSASL}
	if op == jute.OpMulti {
		inner, outer, _ := strings.Cut(rest, "|")
		for part := range strings.SplitSeq(inner, ";") {
			part = strings.TrimSpace(part)
			if part == "" {
				continue
			}
			word, _, _ := strings.Cut(part, " ")
			l := parseLine(part)
			p.Body = (&jute.MultiHeader{Type: opWords[word], Err: -1}).Append(p.Body)
			p.Body = l.record(opWords[word], p.Body)
		}
		p.Body = jute.AppendMultiEnd(p.Body)
		return p, parseLine("multi " + outer).fill(p)
	}
	l := parseLine(text)
	if op == jute.OpReconfig {
		p.Body = l.reconfig(s.config())
	} else {
		p.Body = l.record(op, nil)
	}
	return p, l.fill(p)
}

// operation is one operation of a script.
type operation struct {
	path string
	keys map[string]string
}

// parseLine splits "op path key=value…".
func parseLine(text string) operation {
	l := operation{keys: make(map[string]string)}
	for _, word := range strings.Fields(text)[1:] {
		if key, value, ok := strings.Cut(word, "="); ok {
			l.keys[key] = value
		} else {
			l.path = word
		}
	}
	return l
}

// number returns the value of a key, def if there is none.
func (l operation) number(key string, def int64) int64 {
	if v, err := strconv.ParseInt(l.keys[key], 0, 64); err == nil {
		return v
	}
	return def
}

// fill sets what belongs to the proposal: session, time, flags, server, code, ids, refer (to a list of them that the
// session has), cut (bytes of the body that are missing).
func (l operation) fill(p *entry.Proposal) error {
	p.Session = jute.SessionID(l.number("session", int64(p.Session)))
	p.Time = jute.Millis(l.number("time", int64(p.Time)))
	p.Flags = entry.Flags(l.number("flags", int64(p.Flags)))
	p.Server = uint64(l.number("server", 0))
	p.Code = jute.Code(l.number("code", 0))
	p.Body = p.Body[:len(p.Body)-int(l.number("cut", 0))]
	if text, ok := l.keys["hex"]; ok {
		b, err := hex.DecodeString(text)
		if err != nil {
			return err
		}
		p.Body = b
	}
	if refer, ok := l.keys["refer"]; ok {
		p.Reference = entry.ListIdentities(identities(refer)).Reference()
		return nil
	}
	p.Identities = identities(l.keys["ids"])
	return nil
}

// identities returns those of a connection that has also proven ids, with commas between them.
func identities(ids string) []jute.ID {
	all := []jute.ID{{Scheme: acl.SchemeIP, ID: "127.0.0.1"}}
	if ids == "" {
		return all
	}
	for text := range strings.SplitSeq(ids, ",") {
		scheme, id, _ := strings.Cut(text, ":")
		all = append(all, jute.ID{Scheme: scheme, ID: id})
	}
	return all
}

// modeWords are the values of mode.
var modeWords = map[string]jute.CreateMode{
	"": 0, "e": 1, "s": 2, "es": 3, "container": 4, "ttl": 5, "sttl": 6, "7": 7, "-1": -1,
}

// record adds the record of op: path (nullpath), data (null), size, acl, mode, ttl, version; of sessions timeout,
// passwd, owner, list.
func (l operation) record(op jute.Op, b []byte) []byte {
	data := []byte(l.keys["data"])
	if l.keys["data"] == "null" {
		data = nil
	}
	if n := l.number("size", -1); n >= 0 {
		data = make([]byte, n)
	}
	version := jute.Version(l.number("version", -1))
	var nulls jute.Nulls
	if l.path == "nullpath" {
		nulls = 1
	}
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		mode := modeWords[l.keys["mode"]]
		if _, ok := l.keys["mode"]; !ok && op == jute.OpCreateContainer {
			mode = jute.ModeContainer
		}
		return (&jute.CreateRequest{Path: l.path, Data: data, ACL: l.acl(), Flags: mode, Nulls: nulls}).Append(b)
	case jute.OpCreateTTL:
		mode := modeWords[l.keys["mode"]]
		if _, ok := l.keys["mode"]; !ok {
			mode = jute.ModePersistentTTL
		}
		r := jute.CreateTTLRequest{Path: l.path, Data: data, ACL: l.acl(), Flags: mode,
			TTL: jute.Millis(l.number("ttl", 1000)), Nulls: nulls}
		return r.Append(b)
	case jute.OpDelete, jute.OpCheck:
		return (&jute.PathVersionRequest{Path: l.path, Version: version, Nulls: nulls}).Append(b)
	case jute.OpSetData:
		return (&jute.SetDataRequest{Path: l.path, Data: data, Version: version, Nulls: nulls}).Append(b)
	case jute.OpSetACL:
		return (&jute.SetACLRequest{Path: l.path, ACL: l.acl(), Version: version, Nulls: nulls}).Append(b)
	case jute.OpDeleteContainer, jute.OpGetData:
		return (&jute.PathRequest{Path: l.path, Nulls: nulls}).Append(b)
	case entry.OpSetIdentities:
		return append(b, entry.ListIdentities(identities(l.keys["list"]))...)
	case entry.OpRaiseLevel:
		return (&entry.RaiseTxn{Level: entry.LevelNewest}).Append(b)
	case entry.OpFoundEnsemble:
		f := entry.FoundTxn{ClusterID: entry.ClusterID{byte(l.number("id", 0))},
			Config: []byte(strings.ReplaceAll(l.keys["config"], ",", "\n"))}
		return f.Append(b)
	case jute.OpCreateSession, entry.OpReattachSession:
		s := entry.SessionTxn{TimeoutMillis: int32(l.number("timeout", 10000)), Owner: uint64(l.number("owner", 1))}
		copy(s.Passwd[:], l.keys["passwd"])
		return s.Append(b)
	}
	return b
}

// reconfig returns the body of a reconfig: joining, leaving, members, cur (the version expected), and what a leader
// that sees the configuration has worked out, unless unprepared is set; base is another version for it.
func (l operation) reconfig(config string) []byte {
	req := jute.ReconfigRequest{CurConfigID: l.number("cur", -1)}
	for i, key := range []string{"joining", "leaving", "members"} {
		value, ok := l.keys[key]
		if !ok {
			req.Nulls |= 1 << i
		}
		*[]*string{&req.JoiningServers, &req.LeavingServers, &req.NewMembers}[i] = value
	}
	body := entry.ReconfigTxn{Request: req.Append(nil)}
	present, err := ensemble.Parse(config)
	next, code, _ := present.Apply(&req, ensemble.Rules{SingleVoter: true, MultiAddress: true,
		AnyNumber: true})
	if err == nil && code == jute.OK && l.keys["unprepared"] == "" {
		body.BaseVersion, body.Members = present.Version, next.Members()
	}
	body.BaseVersion = l.number("base", body.BaseVersion)
	return body.Append(nil)
}

// acl reads "scheme:id:perms,…", "null" or "empty"; without the key it is open.
func (l operation) acl() []jute.ACL {
	text, ok := l.keys["acl"]
	switch {
	case !ok:
		return acl.Open
	case text == "null":
		return nil
	case text == "empty":
		return []jute.ACL{}
	}
	var list []jute.ACL
	for entry := range strings.SplitSeq(text, ",") {
		i, j := strings.IndexByte(entry, ':'), strings.LastIndexByte(entry, ':')
		perms, _ := strconv.Atoi(entry[j+1:])
		list = append(list, jute.ACL{Perms: jute.Perms(perms), ID: jute.ID{Scheme: entry[:i], ID: entry[i+1 : max(i+1,
			j)]}})
	}
	return list
}
