package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
)

// TestMachineScripts runs testdata/machine: "apply" makes each line an entry, "entry" makes all lines one; the output
// is what the client is told and which watches fire. The grammar of a line is parseProposal's.
func TestMachineScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/machine", func(t *testing.T, path string) {
		h := newHarness(t, MachineOptions{})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return h.command(t, d) })
	})
}

// harness is a machine on a file system that can forget what was not synced, and the log of what was applied.
type harness struct {
	t    testing.TB
	fs   *vfs.MemFS
	opts MachineOptions
	m    *Machine
	log  [][]byte // entry of index i+1
	time jute.Millis
	out  strings.Builder
}

// newHarness opens an empty machine.
func newHarness(t testing.TB, o MachineOptions) *harness {
	t.Helper()
	h := &harness{t: t, fs: vfs.NewCrashableMem(), opts: o, time: 1000}
	h.open()
	t.Cleanup(func() {
		if h.m != nil {
			h.close()
		}
	})
	return h
}

// open opens the machine and applies again what it has lost.
func (h *harness) open() {
	h.t.Helper()
	h.opts.FS, h.opts.Dir = h.fs, "state"
	m, err := OpenMachine(h.opts)
	if err != nil {
		h.t.Fatal(err)
	}
	h.m = m
	if m.AppliedIndex() != m.DurableIndex() {
		h.t.Fatalf("applied %d, durable %d after opening", m.AppliedIndex(), m.DurableIndex())
	}
	for i := m.AppliedIndex(); i < uint64(len(h.log)); i++ {
		if err := m.Apply(i+1, 1, h.log[i], discard{}); err != nil {
			h.t.Fatal(err)
		}
	}
}

// close closes the machine.
func (h *harness) close() {
	h.t.Helper()
	if err := h.m.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.m = nil
}

// crash forgets what was not synced and opens again.
func (h *harness) crash() {
	h.t.Helper()
	durable := h.m.DurableIndex()
	fs := h.fs.CrashClone(vfs.CrashCloneCfg{})
	h.close()
	h.fs = fs
	h.open()
	if h.m.DurableIndex() < durable {
		h.t.Fatalf("durable index went back from %d to %d", durable, h.m.DurableIndex())
	}
}

// apply applies one entry of the proposals, and returns the results as text.
func (h *harness) apply(proposals ...*entry.Proposal) string {
	h.t.Helper()
	b := entry.AppendEntryHeader(nil, 7, uint64(len(h.log)))
	for _, p := range proposals {
		b = entry.AppendProposal(b, p)
	}
	h.log = append(h.log, b)
	h.out.Reset()
	if err := h.m.Apply(uint64(len(h.log)), 1, slices.Clone(b), h); err != nil {
		h.t.Fatal(err)
	}
	return h.out.String()
}

// Result implements Sink.
func (h *harness) Result(origin, batch uint64, _ int, r *Result) {
	if origin != 7 || batch != uint64(len(h.log)-1) {
		h.t.Errorf("result of origin %d batch %d, want 7 and %d", origin, batch, len(h.log)-1)
	}
	formatResult(&h.out, r)
}

// command runs one command of a script.
func (h *harness) command(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	h.t = t
	var out strings.Builder
	switch d.Cmd {
	case "apply", "entry":
		var proposals []*entry.Proposal
		for line := range strings.Lines(d.Input) {
			p, err := h.parseProposal(strings.TrimSpace(line))
			if err != nil {
				d.Fatalf(t, "%s: %v", line, err)
			}
			if d.Cmd == "apply" {
				out.WriteString(h.apply(p))
			} else {
				proposals = append(proposals, p)
			}
		}
		if d.Cmd == "entry" {
			out.WriteString(h.apply(proposals...))
		}
	case "tree":
		out.WriteString(dumpState(h.m, d.HasArg("system")))
	case "flush":
		if err := h.m.Flush(context.Background()); err != nil {
			d.Fatalf(t, "%v", err)
		}
		fmt.Fprintf(&out, "durable %d of %d\n", h.m.DurableIndex(), h.m.AppliedIndex())
	case "pieces": // of counts, from now on: what was applied is not applied again
		if err := h.m.Flush(context.Background()); err != nil {
			d.Fatalf(t, "%v", err)
		}
		h.close()
		d.ScanArgs(t, "znodes", &h.opts.countPiece)
		h.open()
	case "reopen":
		h.close()
		h.open()
	case "crash":
		h.crash()
	case "read":
		for line := range strings.Lines(d.Input) {
			out.WriteString(h.read(strings.Fields(line)) + "\n")
		}
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return out.String()
}

// read answers one line of a read command.
func (h *harness) read(words []string) string {
	v := h.m.View()
	defer v.Close()
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch words[0] {
	case "children":
		names, ok := v.Children(arg(1), nil)
		return fmt.Sprintf("%v %s", ok, strings.Join(names, " "))
	case "get":
		n, ok := v.Get(arg(1))
		if !ok {
			return "none"
		}
		return fmt.Sprintf("%s %s %s", formatData(n.Data()), formatStat(n.Stat()), formatACL(n.ACL()))
	case "ephemerals":
		id, err := strconv.ParseInt(arg(1), 0, 64)
		if err != nil {
			return err.Error()
		}
		return strings.Join(v.EphemeralsOf(jute.SessionID(id), arg(2), nil), " ")
	case "descendants":
		_, ok := v.Exists(arg(1))
		return fmt.Sprintf("%d %v", v.CountBelow(arg(1)), ok)
	case "expiring":
		now, err := strconv.ParseInt(arg(1), 0, 64)
		if err != nil {
			return err.Error()
		}
		limits := ExpiryLimits{Max: 1000}
		if arg(2) != "" {
			n, err := strconv.Atoi(arg(2))
			if err != nil {
				return err.Error()
			}
			limits.NeverUsedMillis = jute.Millis(n)
		}
		var paths []string
		v.Expiring(jute.Millis(now), limits, func(path string) { paths = append(paths, path) })
		return strings.Join(paths, " ")
	case "counting":
		var out strings.Builder
		for _, q := range h.m.counts.queue {
			if c := h.m.counts.of[q.Target]; c != nil && c.Began == q.Began {
				fmt.Fprintf(&out, "%s %s; ", c.Target, countText(c))
			}
		}
		return fmt.Sprintf("%s%d", out.String(), h.m.CountingQuotas())
	case "counts":
		return fmt.Sprintf("nodes=%d ephemerals=%d bytes=%d sessions=%d zxid=%d index=%d digest=%#x",
			v.NodeCount(), v.EphemeralCount(), v.ApproximateDataBytes(), v.SessionCount(),
			v.Zxid(), v.AppliedIndex(), v.Digest())
	}
	return "unknown read " + words[0]
}

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
	"count": entry.OpCountQuota,
}

// parseProposal reads "op path key=value…". Of a multi the operations follow, separated by ";", and then, behind "|",
// what belongs to the proposal. The keys are those of line; time advances by 10 a proposal unless given.
func (h *harness) parseProposal(text string) (*entry.Proposal, error) {
	word, rest, _ := strings.Cut(text, " ")
	op, ok := opWords[word]
	if !ok {
		return nil, fmt.Errorf("%w: operation %q", errLine, word)
	}
	h.time += 10
	p := &entry.Proposal{Op: op, Session: 1, Xid: 1, Time: h.time, Flags: entry.FlagExtendedTypes | entry.FlagSASL}
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
		p.Body = l.reconfig(h.m.EnsembleConfig())
	} else {
		p.Body = l.record(op, nil)
	}
	return p, l.fill(p)
}

// line is one operation of a script.
type line struct {
	path string
	keys map[string]string
}

// parseLine splits "op path key=value…".
func parseLine(text string) line {
	l := line{keys: make(map[string]string)}
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
func (l line) number(key string, def int64) int64 {
	if v, err := strconv.ParseInt(l.keys[key], 0, 64); err == nil {
		return v
	}
	return def
}

// fill sets what belongs to the proposal: session, time, flags, server, code, ids, cut (bytes of the body that are
// missing).
func (l line) fill(p *entry.Proposal) error {
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
	p.Identities = []jute.ID{{Scheme: acl.SchemeIP, ID: "127.0.0.1"}}
	if ids := l.keys["ids"]; ids != "" {
		for text := range strings.SplitSeq(ids, ",") {
			scheme, id, _ := strings.Cut(text, ":")
			p.Identities = append(p.Identities, jute.ID{Scheme: scheme, ID: id})
		}
	}
	return nil
}

// modeWords are the values of mode.
var modeWords = map[string]jute.CreateMode{
	"": 0, "e": 1, "s": 2, "es": 3, "container": 4, "ttl": 5, "sttl": 6, "7": 7, "-1": -1,
}

// record adds the record of op: path (nullpath), data (null), size, acl, mode, ttl, version; of sessions timeout,
// passwd, owner.
func (l line) record(op jute.Op, b []byte) []byte {
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
func (l line) reconfig(config string) []byte {
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
	next, code, _ := present.Apply(&req, ensemble.Rules{SingleVoter: true, MultiAddress: true})
	if err == nil && code == jute.OK && l.keys["unprepared"] == "" {
		body.BaseVersion, body.Members = present.Version, next.Members()
	}
	body.BaseVersion = l.number("base", body.BaseVersion)
	return body.Append(nil)
}

// acl reads "scheme:id:perms,…", "null" or "empty"; without the key it is open.
func (l line) acl() []jute.ACL {
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
