package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/quorum/clock"
	"zkd/server/audit"
	"zkd/server/auth"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// auditedRig is a server with an audit log, and what is in that when the server has stopped.
func auditedRig(t *testing.T, o rigOptions) (*rig, func() []string) {
	t.Helper()
	var text bytes.Buffer
	log := audit.Open(audit.ToWriter(&text, audit.FormatZooKeeper), clock.Real(), discard)
	o.set = func(o *Options) { o.Audit, o.AuditUser = log, "zkd" }
	r := startRig(t, o)
	t.Cleanup(log.Close)
	return r, func() []string {
		r.stop()
		log.Close()
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		for i := range lines {
			_, lines[i], _ = strings.Cut(lines[i], "Logger: ")
		}
		return lines
	}
}

// TestAuditOrder: the lines of a connection are in the order of its requests, however many are under way, and a large
// request has one, too.
func TestAuditOrder(t *testing.T) {
	r, lines := auditedRig(t, rigOptions{})
	c := r.connect(t)
	c.mustCreate("/n", "", jute.ModePersistent)
	const n = 500
	var all sync.WaitGroup
	all.Go(func() {
		var b []byte
		for i := range jute.Version(n) {
			b = append(b, c.encode(jute.OpSetData, &jute.SetDataRequest{Path: "/n", Version: i - i%2*100000})...)
		}
		c.write(b)
	})
	for range n {
		c.receive()
	}
	all.Wait()
	got := lines()
	if len(got) != n+1 {
		t.Fatalf("%d lines, want %d", len(got), n+1)
	}
	for i, line := range got[1:] {
		want := "success"
		if i > 0 {
			want = "failure" // the version is behind, or before the first
		}
		if !strings.HasSuffix(line, "\toperation=setData\tznode=/n\tresult="+want) {
			t.Fatalf("line %d: %s", i, line)
		}
	}
}

// dropping is a Node that takes proposals of one operation and says that nothing will be known of them.
type dropping struct {
	Node
	op jute.Op
}

// Propose drops what it is to drop.
func (d *dropping) Propose(p *entry.Proposal, w batcher.Waiter) error {
	if p.Op != d.op {
		return d.Node.Propose(p, w)
	}
	w.Dropped(errors.New("the leader has gone"))
	return nil
}

// TestAuditOfTheUnknown: a write of which nobody knows what became has a line that says so.
func TestAuditOfTheUnknown(t *testing.T) {
	r, lines := auditedRig(t, rigOptions{node: func(n Node) Node { return &dropping{n, jute.OpSetData} }})
	c := r.connect(t)
	c.mustCreate("/n", "", jute.ModePersistent)
	c.send(jute.OpSetData, setTo("/n", "x"))
	c.wantClosed()
	got := lines()
	want := fmt.Sprintf("session=%#x\tuser=127.0.0.1\tip=127.0.0.1\toperation=setData\tznode=/n\tresult=invoked",
		uint64(c.welcome.SessionID))
	if len(got) != 2 || got[1] != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestAuditOfAnEnd: the server removes what goes with a session in its own name.
func TestAuditOfAnEnd(t *testing.T) {
	r, lines := auditedRig(t, rigOptions{})
	c, other := r.connect(t), r.connect(t)
	c.mustCreate("/e", "", jute.ModeEphemeral)
	other.mustCreate("/o", "", jute.ModeEphemeral)
	c.must(jute.OpCloseSession, nil, jute.OK)
	c.wantClosed()
	got := lines()
	want := fmt.Sprintf("session=%#x\tuser=zkd\toperation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/e\t"+
		"result=success", uint64(c.welcome.SessionID))
	if len(got) != 3 || got[2] != want {
		t.Errorf("got\n%s\nwant last\n%s", strings.Join(got, "\n"), want)
	}
}

// TestNoAuditCostsNothing: without an audit log a write's waiter is the connection itself.
func TestNoAuditCostsNothing(t *testing.T) {
	c := newConn(&Server{}, &Port{}, netip.AddrPort{}) // of a server that does nothing: it would allocate meanwhile
	body := setTo("/n", "x").Append(nil)
	req := &request{op: jute.OpSetData, body: body}
	if n := testing.AllocsPerRun(100, func() {
		if w := c.auditor.audited(req, &c.writes); w != batcher.Waiter(&c.writes) {
			t.Error("there is a waiter of the audit log")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkAudited is what the audit log costs a reader and the apply goroutine for each write.
func BenchmarkAudited(b *testing.B) {
	log := audit.Open(audit.ToWriter(io.Discard, audit.FormatZooKeeper), clock.Real(),
		slog.New(slog.DiscardHandler))
	defer log.Close()
	r := newRig(b, func(o *Options) { o.Audit = log })
	c := newConn(r.server, &Port{}, netip.AddrPort{})
	c.login.ids.Start(c.remote.Addr(), auth.Bounds{})
	req := &request{op: jute.OpSetData, body: setTo("/some/path/of/a/znode", "x").Append(nil)}
	result := &apply.Result{Op: jute.OpSetData}
	b.ReportAllocs()
	for b.Loop() {
		c.auditor.audited(req, nowhere{}).Applied(result)
	}
}

// nowhere is told and does nothing.
type nowhere struct{}

// Applied does nothing.
func (nowhere) Applied(*apply.Result) {}

// Dropped does nothing.
func (nowhere) Dropped(error) {}
