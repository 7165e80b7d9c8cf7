package server

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/hostile"
	"zkd/jute"
	"zkd/server/socket"
)

// connectUpdater opens a session of a client that can update its keys, and whose kernel takes little that is not read.
func connectUpdater(t *testing.T, addr string) (*client, *hostile.Updater) {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, testDeadline)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })                               // it may be closed
	if err := nc.(*net.TCPConn).SetReadBuffer(128 << 10); err != nil { // with less it would take minutes to read it all
		t.Fatal(err)
	}
	//nolint:gosec // as dialTLS
	u, err := hostile.NewUpdater(nc, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, net: u}
	c.hello(&jute.ConnectRequest{TimeoutMillis: longMillis, Passwd: make([]byte, 16), HasReadOnly: true})
	return c, u
}

// update updates the keys n times.
func update(t *testing.T, u *hostile.Updater, n int) {
	t.Helper()
	for range n {
		if err := u.Update(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeyUpdates: a client of TLS updates its keys between its requests, and within large ones, and all is as before.
func TestKeyUpdates(t *testing.T) {
	r := newRig(t, nil)
	c, u := connectUpdater(t, r.securePort(&Port{Secure: true}))
	large := strings.Repeat("0123456789abcdef", 40_000)
	c.mustCreate("/n", "", jute.ModePersistent)
	for range 3 {
		update(t, u, 1)
		c.must(jute.OpExists, look("/n"), jute.OK)
		set := c.encode(jute.OpSetData, setTo("/n", large))
		for len(set) > 0 {
			n := min(len(set), 100_000)
			c.write(set[:n])
			update(t, u, 2)
			set = set[n:]
		}
		if got := c.receive(); got.Xid != c.xid || got.Err != jute.OK {
			t.Fatalf("setData: %+v", got.ReplyHeader)
		}
		read := c.must(jute.OpGetData, look("/n"), jute.OK)
		if got := read.data(t); got != large {
			t.Fatalf("%d bytes are read, want %d", len(got), len(large))
		}
	}
	update(t, u, 1) // is answered without a request after it: the client that reads learns the server's next keys
	c.must(jute.OpCloseSession, nil, jute.OK)
}

// tight is a listener on whose connections the kernel takes little that the client does not read.
type tight struct{ net.Listener }

// Accept accepts.
func (l tight) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return c, c.(*net.TCPConn).SetWriteBuffer(64 << 10)
}

// deaf connects a client that reads nothing of the events that it has come, until the server waits for it: more is left
// than the kernels of both could take.
func deaf(t *testing.T, r *rig, addr string) (c *client, u *hostile.Updater, events int) {
	t.Helper()
	path := "/" + strings.Repeat("p", 100_000)
	writer := r.connect(t)
	writer.mustCreate(path, "", jute.ModePersistent)
	c, u = connectUpdater(t, addr)
	c.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: path, Mode: jute.WatchPersistent}, jute.OK)
	out := &r.connOf(c).Out
	// Who reads from it has written its answer: else it might write events, too, and read no more.
	out.FlushLast()
	for out.Unread() < 1<<20 { // besides what is being written
		writer.must(jute.OpSetData, setTo(path, "x"), jute.OK)
		events++
	}
	return c, u, events
}

// TestWhoReadsNothingOfTLSHoldsNobodyUp: TLS answers an update of the keys from within a read. While the client of
// that connection takes nothing of what is written to it, others have their turns for large requests, and so has it.
func TestWhoReadsNothingOfTLSHoldsNobodyUp(t *testing.T) {
	r := newRig(t, nil)
	addr := r.securePortOn(tight{listen(t)}, &Port{Secure: true})
	turns := &r.server.largeTurns
	all := takeTurns(turns)
	endTurns(turns, all)
	c, u, events := deaf(t, r, addr)
	others := []*client{r.connect(t), connectTLS(t, addr)}
	others[0].mustCreate("/n", "", jute.ModePersistent)
	large := strings.Repeat("x", 500_000)
	request := c.encode(jute.OpSetData, setTo("/n", large))
	for part := 0; part < len(request); part += 50_000 {
		c.write(request[part:min(part+50_000, len(request))])
		update(t, u, 1) // crypto/tls takes sixteen answers in a row
		for _, other := range others {
			other.must(jute.OpSetData, setTo("/n", large[:400_000]), jute.OK)
		}
	}
	if free := takeTurns(turns); free != all { // it waits for the rest of nothing
		t.Errorf("%d of %d turns are free", free, all)
	} else {
		endTurns(turns, free)
	}
	for range events { // in the end it reads it all
		got := c.receive()
		if got.event(t).kind != jute.EventNodeDataChanged {
			t.Fatalf("%+v, want an event", got.ReplyHeader)
		}
	}
	if got := c.receive(); got.Xid != c.xid || got.Err != jute.OK {
		t.Errorf("its own request: %+v", got.ReplyHeader)
	}
}

// TestWhoUpdatesKeysAndReadsNothingIsCutOff: the answers are few that the server keeps for it.
func TestWhoUpdatesKeysAndReadsNothingIsCutOff(t *testing.T) {
	log := &logged{}
	r := newRig(t, func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(log, nil)) })
	addr := r.securePortOn(tight{listen(t)}, &Port{Secure: true})
	other := connectTLS(t, addr)
	c, u, _ := deaf(t, r, addr)
	before := r.server.connections.count()
	piece := c.encode(jute.OpSetData, setTo("/n", strings.Repeat("x", 200_000)))
	_ = c.net.SetWriteDeadline(time.Now().Add(testDeadline))        // it is new
	for sent := 0; r.server.connections.count() == before; sent++ { // each is answered with 27 bytes
		if sent == len(piece)-1 {
			t.Fatalf("after %d updates nobody is cut off", sent)
		}
		if u.Update() != nil {
			break
		}
		if _, err := u.Write(piece[sent : sent+1]); err != nil { // or crypto/tls itself refuses the seventeenth
			break
		}
	}
	r.count(before - 1)
	eventually(t, "a line says so", func() bool { return strings.Contains(log.text(), "TLS answers not read") })
	other.must(jute.OpExists, look("/"), jute.OK)
}

// recorded keeps what is read of a connection.
type recorded struct {
	net.Conn
	read []byte
}

// Read reads.
func (r *recorded) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.read = append(r.read, b[:n]...)
	return n, err
}

// last returns the type and the length of the last whole record.
func (r *recorded) last() (kind byte, bytes int) {
	for b := r.read; len(b) >= socket.RecordHeaderBytes; {
		kind, bytes = b[0], int(binary.BigEndian.Uint16(b[3:]))
		b = b[min(len(b), socket.RecordHeaderBytes+bytes):]
	}
	return kind, bytes
}

// TestTheEndIsToldInTLS: the end of a connection is told by a close_notify behind the last answer; what is wrong with a
// record, or with a handshake, by an alert.
func TestTheEndIsToldInTLS(t *testing.T) {
	r := newRig(t, nil)
	addr := r.securePort(&Port{Secure: true})
	const alert = 21
	for version, want := range map[uint16]struct {
		kind  byte
		bytes int
	}{ // order: each by itself
		tls.VersionTLS12: {alert, 8 + 2 + 16}, // GCM has a nonce of its own there
		tls.VersionTLS13: {23 /* whatever is within is data */, 2 + 1 + 16},
	} {
		nc, err := net.DialTimeout("tcp", addr, testDeadline)
		if err != nil {
			t.Fatal(err)
		}
		below := &recorded{Conn: nc}
		//nolint:gosec // as dialTLS
		c := tls.Client(below, &tls.Config{InsecureSkipVerify: true, MaxVersion: version,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}})
		t.Cleanup(func() { _ = c.Close() })             // it may be closed
		_ = c.SetDeadline(time.Now().Add(testDeadline)) // it is new
		if _, err := io.WriteString(c, "srvr"); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(c); err != nil || !strings.Contains(string(answer), "Zookeeper version") {
			t.Errorf("version %x: %q, %v", version, answer, err)
		}
		if kind, bytes := below.last(); kind != want.kind || bytes != want.bytes {
			t.Errorf("version %x: the last record is %d of %d bytes, want %+v", version, kind, bytes, want)
		}
	}
	c, u := connectUpdater(t, addr)
	if err := u.Garble(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.next(); err == nil || !strings.Contains(err.Error(), "bad record MAC") {
		t.Errorf("a garbled record: %v, want the alert", err)
	}
	//nolint:gosec // an old client
	_, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10,
		MaxVersion: tls.VersionTLS11})
	if err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("an old client: %v, want the alert", err)
	}
}
