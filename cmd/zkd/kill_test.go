package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zkd/jute"
)

// Bounds of the kill test. Guesses: enough under way that a kill finds writes in every stage.
const (
	killRounds  = 5 // ZKD_KILL_ROUNDS asks for more
	killWriters = 4
	killWindow  = 100  // requests that a writer has under way
	killAcksMax = 4000 // acknowledged writes of a round before the kill
	killTimeout = 2 * time.Minute
)

// TestKillUnderWriteLoadLosesNothing kills the process while it writes and starts it again: every write that was
// acknowledged is there, multis are whole, writes of one connection are there without gaps, and the sessions can be
// taken up again.
func TestKillUnderWriteLoadLosesNothing(t *testing.T) {
	rounds := killRounds
	if text := os.Getenv("ZKD_KILL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("ZKD_KILL_ROUNDS: %v", err)
		}
		rounds = n
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	writers := make([]*writer, killWriters)
	for i := range writers {
		writers[i] = &writer{id: i}
	}
	for round := range rounds {
		p := mustStart(t, dir)
		for _, w := range writers {
			w.verify(t, p.addr, round)
		}
		loadAndKill(t, p, writers, round, 1+random.Int64N(killAcksMax))
	}
	p := mustStart(t, dir)
	for _, w := range writers {
		w.verify(t, p.addr, rounds)
	}
}

// mustStart starts a server that is killed at the end of the test at the latest.
func mustStart(t *testing.T, dir string) *daemon {
	t.Helper()
	p, err := startProcess(dir, []string{"serve", "--port", "0", "--data-dir", "data"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// loadAndKill lets all writers write until acks writes are acknowledged, and kills the process.
func loadAndKill(t *testing.T, p *daemon, writers []*writer, round int, acks int64) {
	t.Helper()
	var acked atomic.Int64
	enough := make(chan struct{})
	var once sync.Once
	var all sync.WaitGroup
	for _, w := range writers {
		all.Go(func() {
			err := w.load(round, func() {
				if acked.Add(1) >= acks {
					once.Do(func() { close(enough) })
				}
			})
			if err != nil {
				t.Errorf("writer %d: %v", w.id, err)
			}
		})
	}
	deadline := time.NewTimer(killTimeout)
	defer deadline.Stop()
	select {
	case <-enough:
	case <-deadline.C:
		t.Errorf("only %d writes acknowledged in %v", acked.Load(), killTimeout)
	}
	p.kill()
	all.Wait()
}

// writer is a client that numbers its writes, and knows which were acknowledged.
type writer struct {
	id      int
	session jute.ConnectResponse
	link    *link
	parent  string // of this round's writes
	sent    int    // writes sent below parent
	acked   int    // writes acknowledged below parent
}

// link is one connection.
type link struct {
	net net.Conn
	xid jute.Xid
}

// record is the body of a request.
type record interface{ Append([]byte) []byte }

// everyone may do everything.
var everyone = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}

// open connects, and takes up the session of the earlier rounds.
func (w *writer) open(t *testing.T, addr string) {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, killTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	w.link = &link{net: nc}
	req := jute.ConnectRequest{TimeoutMillis: 40000, SessionID: w.session.SessionID, Passwd: w.session.Passwd}
	payload := req.Append(nil)
	if _, err := nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)); err != nil {
		t.Fatal(err)
	}
	if payload, err = w.link.next(); err != nil {
		t.Fatalf("handshake: %v", err)
	}
	var got jute.ConnectResponse
	d := jute.NewDecoder(payload)
	got.Decode(&d)
	if d.Err() != nil || got.SessionID == 0 || w.session.SessionID != 0 && got.SessionID != w.session.SessionID {
		t.Fatalf("writer %d: session %x is answered %+v (%v)", w.id, w.session.SessionID, got, d.Err())
	}
	got.Passwd = append([]byte(nil), got.Passwd...)
	w.session = got
}

// next takes a frame.
func (l *link) next() ([]byte, error) {
	_ = l.net.SetReadDeadline(time.Now().Add(killTimeout)) // an error shows with the read
	var head [4]byte
	if _, err := io.ReadFull(l.net, head[:]); err != nil {
		return nil, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(l.net, payload)
	return payload, err
}

// encode makes a request.
func (l *link) encode(op jute.Op, body record) []byte {
	l.xid++
	h := jute.RequestHeader{Xid: l.xid, Op: op}
	payload := body.Append(h.Append(make([]byte, 4)))
	binary.BigEndian.PutUint32(payload, uint32(len(payload)-4))
	return payload
}

// reply takes the reply to xid and returns its body.
func (l *link) reply(xid jute.Xid) (body []byte, code jute.Code, err error) {
	payload, err := l.next()
	if err != nil {
		return nil, 0, err
	}
	var h jute.ReplyHeader
	d := jute.NewDecoder(payload)
	h.Decode(&d)
	if d.Err() != nil || h.Xid != xid {
		return nil, 0, fmt.Errorf("%w: got xid %d, want %d", errReply, h.Xid, xid)
	}
	return d.Remaining(), h.Err, nil
}

// errReply means an answer that is not what must come, while the connection holds.
var errReply = errors.New("wrong reply")

// request is write number n: two znodes and the parent's data, all or nothing; every third is a single create.
func (w *writer) request(n int) (jute.Op, record) {
	node := func(kind string) *jute.CreateRequest {
		return &jute.CreateRequest{Path: fmt.Sprintf("%s/%s%d", w.parent, kind, n), ACL: everyone, Data: []byte{}}
	}
	if n%3 == 0 {
		return jute.OpCreate, node("s")
	}
	return jute.OpMulti, transaction{
		{jute.OpCreate, node("a")},
		{jute.OpCreate, node("b")},
		{jute.OpSetData, &jute.SetDataRequest{Path: w.parent, Data: []byte(strconv.Itoa(n)), Version: jute.AnyVersion}},
	}
}

// transaction is the body of a multi.
type transaction []struct {
	op   jute.Op
	body record
}

// Append implements record.
func (m transaction) Append(b []byte) []byte {
	for _, o := range m {
		h := jute.MultiHeader{Type: o.op, Err: -1}
		b = o.body.Append(h.Append(b))
	}
	return jute.AppendMultiEnd(b)
}

// load writes below a new parent until the connection ends.
func (w *writer) load(round int, acked func()) error {
	w.parent, w.sent, w.acked = fmt.Sprintf("/r%d-w%d", round, w.id), 0, 0
	l := w.link
	first := l.encode(jute.OpCreate, &jute.CreateRequest{Path: w.parent, ACL: everyone, Data: []byte("0")})
	if _, err := l.net.Write(first); err != nil {
		return nil // killed before anything was taken
	}
	if _, code, err := l.reply(l.xid); err != nil || code != jute.OK {
		return killedOr(err, code)
	}
	base := l.xid
	for {
		for w.sent < w.acked+killWindow {
			w.sent++
			op, body := w.request(w.sent)
			if _, err := l.net.Write(l.encode(op, body)); err != nil {
				break
			}
		}
		if _, code, err := l.reply(base + jute.Xid(w.acked) + 1); err != nil || code != jute.OK {
			return killedOr(err, code)
		}
		w.acked++
		acked()
	}
}

// killedOr is nil when the connection has ended.
func killedOr(err error, code jute.Code) error {
	if errors.Is(err, errReply) {
		return err
	}
	if err == nil {
		return fmt.Errorf("%w: %v", errReply, code)
	}
	return nil
}

// verify opens the connection again and compares what is there with what was acknowledged.
func (w *writer) verify(t *testing.T, addr string, round int) {
	t.Helper()
	w.open(t, addr)
	if w.acked == 0 {
		return // perhaps not even the parent is there
	}
	kinds, last := w.found(t)
	applied := len(kinds["s"]) + len(kinds["a"])
	if applied < w.acked || applied > w.sent {
		t.Errorf("round %d writer %d: %d writes are there, %d acknowledged of %d", round, w.id, applied, w.acked,
			w.sent)
	}
	newest := 0
	for n := 1; n <= applied; n++ { // without gaps, for one connection's writes are applied in order
		if n%3 == 0 {
			if !kinds["s"][n] {
				t.Errorf("round %d writer %d: write %d is missing of %d", round, w.id, n, applied)
			}
			continue
		}
		newest = n
		if !kinds["a"][n] || !kinds["b"][n] {
			t.Errorf("round %d writer %d: transaction %d is missing or half there", round, w.id, n)
		}
	}
	if len(kinds["a"]) != len(kinds["b"]) || last != newest {
		t.Errorf("round %d writer %d: %d and %d halves, data %d, want %d", round, w.id, len(kinds["a"]),
			len(kinds["b"]),
			last, newest)
	}
}

// found reads what is below the parent, by kind and number, and the parent's data.
func (w *writer) found(t *testing.T) (kinds map[string]map[int]bool, last int) {
	t.Helper()
	l := w.link
	look := &jute.PathWatchRequest{Path: w.parent}
	if _, err := l.net.Write(append(l.encode(jute.OpGetChildren, look), l.encode(jute.OpGetData,
		look)...)); err != nil {
		t.Fatal(err)
	}
	var children jute.GetChildrenResponse
	var data jute.GetDataResponse
	for i, into := range []interface{ Decode(*jute.Decoder) }{&children, &data} {
		body, code, err := l.reply(l.xid - 1 + jute.Xid(i))
		if err != nil || code != jute.OK {
			t.Fatalf("writer %d: read %s: %v %v", w.id, w.parent, code, err)
		}
		d := jute.NewDecoder(body)
		into.Decode(&d)
		if d.Err() != nil {
			t.Fatal(d.Err())
		}
	}
	kinds = map[string]map[int]bool{"s": {}, "a": {}, "b": {}}
	for _, name := range children.Children {
		n, err := strconv.Atoi(strings.TrimLeft(name, "sab"))
		if err != nil {
			t.Fatalf("child %q", name)
		}
		kinds[name[:1]][n] = true
	}
	last, err := strconv.Atoi(string(data.Data))
	if err != nil {
		t.Fatalf("data %q", data.Data)
	}
	return kinds, last
}
