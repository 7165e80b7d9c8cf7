package main

import (
	"context"
	"errors"
	"fmt"
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
	"zkd/jute/client"
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
	id     int
	conn   *client.Conn // of this round; its session goes through all of them
	parent string       // of this round's writes
	sent   int          // writes sent below parent
	acked  int          // writes acknowledged below parent
}

// record is the body of a request.
type record interface{ Append([]byte) []byte }

// everyone may do everything.
var everyone = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}

// open connects, and takes up the session of the earlier rounds.
func (w *writer) open(t *testing.T, addr string) {
	t.Helper()
	conn, err := w.dial(t.Context(), addr)
	if err != nil {
		t.Fatalf("writer %d: %v", w.id, err)
	}
	t.Cleanup(conn.Cut)
	if w.conn != nil && conn.Session != w.conn.Session {
		t.Fatalf("writer %d: session %x is answered %x", w.id, w.conn.Session, conn.Session)
	}
	w.conn = conn
}

// dial makes the connection of the next round.
func (w *writer) dial(ctx context.Context, addr string) (*client.Conn, error) {
	if w.conn != nil {
		return client.Reattach(ctx, addr, w.conn)
	}
	return client.Dial(ctx, client.Options{Addr: addr, Now: time.Now, Dial: new(net.Dialer).DialContext})
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
	create := jute.CreateRequest{Path: w.parent, ACL: everyone, Data: []byte("0")}
	header, _, err := w.conn.Do(jute.OpCreate, create.Append)
	if err = errors.Join(err, refused(header.Err)); err != nil {
		return killedOr(err)
	}
	base := header.Xid
	if err := w.conn.SetDeadline(killTimeout); err != nil {
		return err
	}
	for {
		for w.sent < w.acked+killWindow {
			w.sent++
			op, body := w.request(w.sent)
			if err := w.conn.Write(client.Request(nil, w.conn.NextXid(), op, body.Append)); err != nil {
				break // what was answered can be read still
			}
		}
		header, _, err := w.conn.ReadReply()
		if want := base + jute.Xid(w.acked) + 1; err == nil && header.Xid != want {
			err = fmt.Errorf("%w: got xid %d, want %d", errReply, header.Xid, want)
		}
		if err = errors.Join(err, refused(header.Err)); err != nil {
			return killedOr(err)
		}
		w.acked++
		acked()
	}
}

// refused is the error of a code; nil if there is none.
func refused(code jute.Code) error {
	if code == jute.OK {
		return nil
	}
	return fmt.Errorf("%w: %v", errReply, code)
}

// killedOr is nil when the connection has ended.
func killedOr(err error) error {
	if errors.Is(err, errReply) || errors.Is(err, client.ErrOutOfOrder) || errors.Is(err, jute.ErrShort) {
		return err
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
	look := jute.PathWatchRequest{Path: w.parent}
	var children jute.GetChildrenResponse
	w.read(t, jute.OpGetChildren, &look, &children)
	kinds = map[string]map[int]bool{"s": {}, "a": {}, "b": {}}
	for _, name := range children.Children {
		n, err := strconv.Atoi(strings.TrimLeft(name, "sab"))
		if err != nil {
			t.Fatalf("child %q", name)
		}
		kinds[name[:1]][n] = true
	}
	var data jute.GetDataResponse
	w.read(t, jute.OpGetData, &look, &data)
	last, err := strconv.Atoi(string(data.Data))
	if err != nil {
		t.Fatalf("data %q", data.Data)
	}
	return kinds, last
}

// read sends a request and decodes the reply, into what is valid until the next.
func (w *writer) read(t *testing.T, op jute.Op, request record, into interface{ Decode(*jute.Decoder) }) {
	t.Helper()
	header, body, err := w.conn.Do(op, request.Append)
	if err != nil || header.Err != jute.OK {
		t.Fatalf("writer %d: %v of %s: %v %v", w.id, op, w.parent, header.Err, err)
	}
	d := jute.NewDecoder(body)
	into.Decode(&d)
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
}
