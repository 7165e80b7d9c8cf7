package differential_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"zkd/compat-tests/target"
	"zkd/jute"
)

// capture is one recorded exchange; see doc.go of package jute for where they come from.
type capture struct {
	ID, Kind, Server, Desc, Req, Conn, Text string
	Run, Opcode                             int
	ConnTimeout                             int32 `json:"conn_timeout"`
	Resp                                    []string
	Closed                                  bool
	Masks                                   []mask
	ReqMasks                                []mask `json:"req_masks"`
	Decoded                                 []struct {
		ZxidAdvance *int64 `json:"zxid_advance"`
	}
}

// mask is a part of a frame that differs between servers. Off counts from the length before the frame.
type mask struct {
	Resp, Off, Len int
	Field          string
}

// TestCaptures replays what was recorded from a standalone server, on a fresh server for each run.
func TestCaptures(t *testing.T) {
	excluded, deviations := namedReasons(t, "testdata/excluded.txt"), namedReasons(t, "testdata/deviations.txt")
	deviates := func(c capture) bool { return target.Selected(t) == target.Zkd && deviations["capture:"+c.ID] != "" }
	runs := map[int][]capture{}
	replayed := 0
	for _, c := range readCaptures(t) {
		if excluded[c.ID] == "" && excluded["server:"+c.Server] == "" &&
			excluded[fmt.Sprintf("run:%d", c.Run)] == "" {
			runs[c.Run] = append(runs[c.Run], c)
			replayed++
		}
	}
	t.Logf("%d exchanges in %d runs", replayed, len(runs))
	for run, captures := range runs { // the order does not matter: each run has a server of its own
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			s := target.Start(t, target.Options{})
			r := &replay{t: t, addr: s.Addr, conns: map[string]*conn{}, zxids: map[uint64]uint64{}}
			defer r.close()
			for _, c := range captures {
				if deviates(c) {
					r.deviation(c)
				} else if err := r.exchange(c); err != nil {
					t.Errorf("%s (%s): %v", c.ID, c.Desc, err)
				}
			}
		})
	}
}

// TestCaptureLists checks that the lists of what is not replayed name captures that exist.
func TestCaptureLists(t *testing.T) {
	known := map[string]bool{}
	for _, c := range readCaptures(t) {
		known[c.ID], known["server:"+c.Server], known[fmt.Sprintf("run:%d", c.Run)] = true, true, true
	}
	for name := range namedReasons(t, "testdata/excluded.txt") { // the order does not matter
		if !known[name] {
			t.Errorf("testdata/excluded.txt names %q, which is not in the captures", name)
		}
	}
	for name := range namedReasons(t, "testdata/deviations.txt") { // the order does not matter
		if id, ok := strings.CutPrefix(name, "capture:"); ok && !known[id] {
			t.Errorf("testdata/deviations.txt names %q, which is not in the captures", name)
		}
	}
}

func readCaptures(t *testing.T) []capture {
	t.Helper()
	text, err := os.ReadFile("../../jute/testdata/captures.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var captures []capture
	for _, text := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var c capture
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		captures = append(captures, c)
	}
	return captures
}

// namedReasons reads a list of "name<blank>reason" lines; # begins a comment. Blanks in a name are written as _.
func namedReasons(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path) //nolint:gosec // a test's own file
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for _, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, why, ok := strings.Cut(line, " ")
		if !ok {
			t.Fatalf("%s: %q gives no reason", path, line)
		}
		reasons[strings.ReplaceAll(name, "_", " ")] = strings.TrimSpace(why)
	}
	return reasons
}

// recordedSessions begins the ids of the sessions in the captures; a counter follows.
var recordedSessions = []byte{0x01, 0x00, 0x00, 0x2c, 0x29, 0x32}

// replay replays the captures of one run on one server.
type replay struct {
	t        *testing.T
	addr     string
	conns    map[string]*conn
	open     []*conn           // connections without a name; they stay open, as they did
	sessions []*conn           // in the order of their creation, which is the counter in recorded session ids
	zxids    map[uint64]uint64 // recorded zxid → this server's
	last     int64             // the zxid of the reply before
	lastConn string            // the connection of that reply
}

func (r *replay) close() {
	for _, c := range r.conns { // the order does not matter: each is only closed
		c.close()
	}
	for _, c := range r.open {
		c.close()
	}
}

// deviation takes the place of an exchange that zkd refuses on purpose. What made a container of a flag that says
// otherwise is sent with the right flag, so that the tree is the same afterwards; the rest is left out.
func (r *replay) deviation(c capture) {
	if jute.Op(c.Opcode) != jute.OpCreateContainer {
		return
	}
	c.Req = c.Req[:len(c.Req)-8] + "00000004"
	c.Kind = "setup"
	if err := r.exchange(c); err != nil {
		r.t.Errorf("%s, as a container: %v", c.ID, err)
	}
}

func (r *replay) exchange(c capture) error {
	req, err := r.request(c)
	if err != nil {
		return err
	}
	switch c.Kind {
	case "4lw":
		return r.word(c, req)
	case "handshake":
		conn, err := dial(r.addr, answerWithin)
		if err != nil {
			return err
		}
		r.open = append(r.open, conn)
		return r.converse(conn, c, req)
	case "raw":
		conn, err := r.session(30000)
		if err != nil {
			return err
		}
		r.open = append(r.open, conn)
		return r.converse(conn, c, req)
	}
	conn := r.conns[c.Conn]
	if conn == nil || conn.gone {
		if conn, err = r.session(c.ConnTimeout); err != nil {
			return err
		}
		r.conns[c.Conn] = conn
	}
	return r.converse(conn, c, req)
}

// session opens a connection with a new session.
func (r *replay) session(timeout int32) (*conn, error) {
	c, err := dial(r.addr, answerWithin)
	if err != nil {
		return nil, err
	}
	hello := connectRequest{timeout: timeout, passwd: make([]byte, 16), readOnly: "0"}
	if _, err := c.tcp.Write(hello.frame()); err != nil {
		return nil, err
	}
	payload, err := c.read()
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	r.learnSession(c, payload)
	return c, nil
}

func (r *replay) learnSession(c *conn, payload []byte) {
	_, id, passwd := connectResponse(payload)
	known := func(s *conn) bool { return s.id == id }
	if c.id, c.passwd = id, slices.Clone(passwd); id != 0 && !slices.ContainsFunc(r.sessions, known) {
		r.sessions = append(r.sessions, c)
	}
}

// request returns the bytes to send: the recorded ones, with this server's sessions and zxids.
func (r *replay) request(c capture) ([]byte, error) {
	req, err := hex.DecodeString(c.Req)
	if err != nil {
		return nil, err
	}
	var session *conn
	for _, m := range c.ReqMasks {
		field := req[m.Off : m.Off+m.Len]
		switch m.Field {
		case "sessionId":
			index := int(binary.BigEndian.Uint16(field[6:]))
			if bytes.HasPrefix(field, recordedSessions) && index < len(r.sessions) {
				session = r.sessions[index]
				binary.BigEndian.PutUint64(field, uint64(session.id))
			}
		case "passwd":
			if session != nil && !bytes.Equal(field, bytes.Repeat([]byte{1}, m.Len)) {
				copy(field, session.passwd)
			}
		case "relativeZxid":
			zxid, known := r.zxids[binary.BigEndian.Uint64(field)]
			if !known {
				return nil, fmt.Errorf("no reply had the zxid %d before", binary.BigEndian.Uint64(field))
			}
			binary.BigEndian.PutUint64(field, zxid)
		}
	}
	return req, nil
}

// converse sends a request, if there is one, and compares what comes back.
func (r *replay) converse(conn *conn, c capture, req []byte) error {
	if err := conn.within(answerWithin); err != nil {
		return err
	}
	if len(req) > 0 {
		if _, err := conn.tcp.Write(req); err != nil {
			return err
		}
	}
	var got, want [][]byte
	for i, text := range c.Resp {
		recorded, err := hex.DecodeString(text)
		if err != nil {
			return err
		}
		payload, err := conn.read()
		if err != nil {
			return fmt.Errorf("frame %d of %d: %w; recorded %s", i+1, len(c.Resp), err, text)
		}
		if c.Kind == "handshake" {
			r.learnSession(conn, payload)
		}
		got, want = append(got, payload), append(want, recorded[jute.FrameHeaderBytes:])
	}
	err := r.check(c, got, want)
	if c.Closed {
		if payload, readErr := conn.read(); !closedByPeer(readErr) && err == nil {
			err = fmt.Errorf("not closed: %x, %w", payload, readErr)
		}
		conn.close()
	}
	return err
}

// check compares frames outside the masks. What the protocol leaves in no order is compared in an order.
func (r *replay) check(c capture, got, want [][]byte) error {
	if c.ID == "close-events" {
		slices.SortFunc(got, bytes.Compare)
		slices.SortFunc(want, bytes.Compare)
	}
	var zxidErr error
	for i := range got {
		for _, m := range c.Masks {
			if m.Resp != i {
				continue
			}
			at := m.Off - jute.FrameHeaderBytes
			if at+m.Len > len(got[i]) || at+m.Len > len(want[i]) {
				continue // of different lengths: reported below
			}
			if m.Field == "hdr.zxid" && i == len(got)-1 {
				zxidErr = r.advance(c, got[i], want[i])
			}
			clear(got[i][at : at+m.Len])
			clear(want[i][at : at+m.Len])
		}
		if bytes.Equal(got[i], want[i]) || c.Kind == "setup" {
			continue
		}
		var show renderer
		a, _ := show.frame(jute.Op(c.Opcode), got[i])
		b, _ := show.frame(jute.Op(c.Opcode), want[i])
		if a != b || !inNoOrder(jute.Op(c.Opcode)) {
			return fmt.Errorf("frame %d of %d\n  recorded %s\n           %x\n  answered %s\n           %x", i+1,
				len(got),
				b, want[i], a, got[i])
		}
	}
	return zxidErr
}

func inNoOrder(op jute.Op) bool {
	return op == jute.OpGetChildren || op == jute.OpGetChildren2 || op == jute.OpGetEphemerals ||
		op == jute.OpMultiRead
}

// advance checks how far the zxid moved since the reply before, if that was on the same connection, and that 0 and −1
// are the same.
func (r *replay) advance(c capture, got, want []byte) error {
	actual, recorded := int64(binary.BigEndian.Uint64(got[4:])), int64(binary.BigEndian.Uint64(want[4:]))
	r.zxids[uint64(recorded)] = uint64(actual)
	if actual != recorded && (recorded <= 0 || actual <= 0) {
		return fmt.Errorf("zxid %d, recorded %d", actual, recorded)
	}
	if actual <= 0 {
		return nil
	}
	last, follows := r.last, r.lastConn == c.Conn
	r.last, r.lastConn = actual, c.Conn
	// Recorded advances above 1 are of moments at which something happened that is not in the captures.
	n := len(c.Decoded)
	if c.Kind != "request" || !follows || n == 0 || c.Decoded[n-1].ZxidAdvance == nil ||
		*c.Decoded[n-1].ZxidAdvance > 1 {
		return nil
	}
	if moved := actual - last; moved != *c.Decoded[n-1].ZxidAdvance {
		return fmt.Errorf("the zxid moved by %d, recorded %d", moved, *c.Decoded[n-1].ZxidAdvance)
	}
	return nil
}

// word sends a four-letter word and compares the text, without its numbers where those were masked.
func (r *replay) word(c capture, req []byte) error {
	conn, err := dial(r.addr, answerWithin)
	if err != nil {
		return err
	}
	defer conn.close()
	if _, err := conn.tcp.Write(req); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn.in)
	if err != nil && !closedByPeer(err) {
		return err
	}
	got, want := string(answer), c.Text
	if len(c.Masks) > 0 {
		got, want = number.ReplaceAllString(got, "N"), number.ReplaceAllString(want, "N")
		if strings.HasPrefix(want, "Zookeeper version") { // the build's hash and date follow
			_, got, _ = strings.Cut(got, "\n")
			_, want, _ = strings.Cut(want, "\n")
		}
	}
	if got != want {
		return fmt.Errorf("answered %q, recorded %q", got, want)
	}
	return nil
}
