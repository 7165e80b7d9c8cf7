package differential_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"zkd/compat-tests/target"
	"zkd/jute"
)

// answerWithin bounds the wait for the answers to one burst. A guess: 1,000 times what they take.
const answerWithin = time.Minute

// closeWithin bounds the wait for a server to close a connection after an error that closes it. A guess, for a machine
// that stands still.
const closeWithin = time.Minute

// step is one burst of a script and what came back, a line of text for each frame.
type step struct {
	lines   []line
	answers []string
}

// runner runs one script on one server.
type runner struct {
	addr   string
	conns  map[string]*conn
	admin  *conn
	enc    encoder
	render renderer
	steps  []step
}

// run runs a script and returns its transcript. An error means that the script could not be run at all.
func run(addr, root string, lines []line) ([]step, error) {
	r := &runner{addr: addr, conns: map[string]*conn{}, enc: encoder{root: root}}
	r.render.sessions = map[jute.SessionID]string{0: "0"}
	defer func() {
		for _, c := range r.conns { // the order does not matter: each is only closed
			c.close()
		}
		if r.admin != nil {
			r.admin.close()
		}
	}()
	if err := r.begin(); err != nil {
		return nil, fmt.Errorf("begin the script: %w", err)
	}
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && lines[n].joined {
			n++
		}
		answers, err := r.burst(lines[:n])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace(format(lines[:n])), err)
		}
		r.steps = append(r.steps, step{lines[:n], answers})
		if slices.ContainsFunc(lines[:n], func(l line) bool { return l.deviation != "" }) {
			if err := r.rebase(); err != nil {
				return nil, err
			}
		}
		lines = lines[n:]
	}
	return r.steps, r.end()
}

// begin connects as the superuser and makes the script's root.
func (r *runner) begin() error {
	admin, err := dial(r.addr, answerWithin)
	if err != nil {
		return err
	}
	r.admin = admin
	open, _ := parseLine("admin open timeout=40000 ro=0")
	if _, err := r.handshake(admin, open); err != nil {
		return err
	}
	auth, _ := parseLine("admin auth digest " + target.SuperUser + ":" + target.SuperPassword)
	mk, _ := parseLine("admin create ~")
	answers, err := r.requests(admin, []line{auth, mk})
	if err != nil {
		return err
	}
	if len(answers) != 2 || !strings.Contains(answers[1], "err=ok") {
		return fmt.Errorf("create %s: %v", r.enc.root, answers)
	}
	return r.rebase()
}

// rebase makes the zxids of the steps to come count from now.
func (r *runner) rebase() error {
	if err := r.admin.within(answerWithin); err != nil {
		return err
	}
	if err := r.send(r.admin, []line{{verb: "ping"}}); err != nil {
		return err
	}
	payload, err := r.admin.read()
	if err != nil {
		return err
	}
	r.admin.owed = nil
	_, header := r.render.frame(jute.OpPing, payload)
	r.render.base = header.Zxid - jute.Zxid(1000*len(r.steps))
	r.enc.base = r.render.base
	if len(r.steps) == 0 {
		r.render.first = header.Zxid
	}
	return nil
}

// burst sends the lines, which are of one connection, and returns all that they bring about anywhere.
func (r *runner) burst(lines []line) ([]string, error) {
	first := lines[0]
	c := r.conns[first.conn]
	switch first.verb {
	case "open", "dial":
		return r.open(first)
	case "4lw":
		word, _ := unquote(first.args[0])
		return fourLetterWord(r.addr, word, r.render.sessions), nil
	}
	if c == nil || c.gone {
		return []string{"no connection"}, nil
	}
	if err := c.within(answerWithin); err != nil {
		return nil, err
	}
	switch first.verb {
	case "drop":
		c.close()
		return nil, nil
	case "bytes":
		return r.bytes(c, first)
	case "await":
		return r.await(c, int(first.pathNumber()))
	}
	answers, err := r.requests(c, lines)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(lines, writes) {
		answers = append(answers, r.sync(c)...)
	}
	if slices.ContainsFunc(lines, func(l line) bool { return opOf(l) == jute.OpCloseSession }) {
		sortEvents(answers)
	}
	return answers, nil
}

// requests sends requests in one segment and reads until all are answered, and after an answer that closes the
// connection until it is closed.
func (r *runner) requests(c *conn, lines []line) ([]string, error) {
	if err := r.send(c, lines); err != nil {
		return nil, err
	}
	answers := r.receive(c, "")
	closing := slices.ContainsFunc(answers, func(a string) bool {
		return strings.Contains(a, "err=authFailed") || strings.Contains(a, "err=unimplemented") ||
			strings.Contains(a, "err=sessionClosed") || strings.Contains(a, "unexpected")
	}) || slices.ContainsFunc(lines, func(l line) bool { return opOf(l) == jute.OpCloseSession })
	if closing && !c.gone {
		answers = append(answers, r.awaitClose(c)...)
	}
	return answers, nil
}

// awaitClose returns the events until the server closes the connection, and whether it does. A ping shows one that
// stays open; a server that closes may still answer it.
func (r *runner) awaitClose(c *conn) []string {
	if err := r.send(c, []line{{verb: "ping"}}); err != nil {
		c.close()
		return []string{"closed"}
	}
	answers := slices.DeleteFunc(r.receive(c, ""), func(a string) bool { return strings.HasPrefix(a, "xid=-2 ") })
	if c.gone {
		return answers
	}
	_ = c.within(closeWithin) // fails only where the read fails
	if _, err := c.read(); err != nil && closedByPeer(err) {
		c.close()
		return append(answers, "closed")
	}
	return append(answers, "stays open")
}

func (r *runner) send(c *conn, lines []line) error {
	var b []byte
	for _, l := range lines {
		c.xid++
		var xid jute.Xid
		var err error
		if b, xid, err = r.enc.frame(b, l, c.xid); err != nil {
			return err
		}
		if opOf(l) == jute.OpPing {
			xid = jute.XidPing
		}
		c.owed = append(c.owed, owed{op: opOf(l), xid: xid})
	}
	if _, err := c.tcp.Write(b); err != nil && !closedByPeer(err) {
		return err
	}
	return nil // a closed connection shows when it is read
}

// receive reads until nothing is owed or the connection is closed.
func (r *runner) receive(c *conn, prefix string) []string {
	var answers []string
	for len(c.owed) > 0 {
		payload, err := c.read()
		if err != nil {
			c.close()
			if closedByPeer(err) {
				return append(answers, prefix+"closed")
			}
			return append(answers, prefix+"no answer: "+timeoutText(err))
		}
		text, header := r.render.frame(c.owed[0].op, payload)
		switch {
		case header.Xid == jute.XidNotification:
			c.events++
			answers = append(answers, prefix+text)
		case header.Xid != c.owed[0].xid:
			answers = append(answers, prefix+"unexpected "+hex.EncodeToString(payload[:min(8, len(payload))]))
			c.owed = c.owed[1:]
		default:
			answers = append(answers, prefix+text)
			c.owed = c.owed[1:]
		}
	}
	return answers
}

// sync sends a ping on every other connection and returns what arrives before the answers.
func (r *runner) sync(but *conn) []string {
	var answers []string
	names := slices.Sorted(maps.Keys(r.conns))
	for _, name := range names {
		if c := r.conns[name]; c != but && !c.gone && c.id != 0 {
			if err := r.send(c, []line{{verb: "ping"}}); err != nil {
				c.close()
			}
			_ = c.within(answerWithin) // fails only where the read fails
		}
	}
	for _, name := range names {
		if c := r.conns[name]; c != but && len(c.owed) > 0 && !c.gone {
			answers = append(answers, r.receive(c, name+": ")...)
		}
	}
	return answers
}

// open dials and, unless the line says dial, shakes hands.
func (r *runner) open(l line) ([]string, error) {
	c, err := dial(r.addr, answerWithin)
	if err != nil {
		return nil, err
	}
	old := r.conns[l.conn]
	r.conns[l.conn] = c
	if l.verb == "dial" {
		return nil, nil
	}
	if old != nil && l.keys["session"] == l.conn { // the old connection may still be there: it is watched until kicked
		c.id, c.passwd = old.id, old.passwd
		r.conns[l.conn+"'"] = old
	}
	text, err := r.handshake(c, l)
	if err != nil {
		return nil, err
	}
	return append([]string{text}, r.sync(c)...), nil
}

// handshake sends a connect request and returns the text of the answer.
func (r *runner) handshake(c *conn, l line) (string, error) {
	req := connectRequest{
		proto: int32(l.number("proto", 0)), timeout: int32(l.number("timeout", 30000)),
		zxid: jute.Zxid(l.number("zxid", 0)), passwd: make([]byte, 16), readOnly: l.value("ro", "0"),
	}
	if name := l.keys["session"]; name != "" {
		holder := r.conns[name]
		if holder == nil {
			holder = &conn{id: 0x1234, passwd: make([]byte, 16)}
		}
		req.session, req.passwd = holder.id, slices.Clone(holder.passwd)
	}
	switch l.keys["passwd"] {
	case "wrong":
		req.passwd = []byte("0123456789abcdef")
	case "null":
		req.passwd = nil
	case "empty":
		req.passwd = []byte{}
	case "short":
		req.passwd = req.passwd[:8]
	}
	if _, err := c.tcp.Write(req.frame()); err != nil {
		return "", err
	}
	payload, err := c.read()
	if err != nil {
		c.close()
		c.id = 0
		return "handshake: " + readText(err), nil
	}
	text, id, passwd := connectResponse(payload)
	if id == 0 {
		if _, err := c.read(); err != nil {
			text += ", " + readText(err)
		}
		c.close()
		return text, nil
	}
	c.id, c.passwd = id, slices.Clone(passwd)
	if name, known := r.render.sessions[id]; known {
		return text + " as " + name, nil
	}
	r.render.sessions[id] = fmt.Sprintf("session%d", len(r.render.sessions))
	return text + " as " + r.render.sessions[id], nil
}

// bytes sends raw bytes and returns the frame that comes back, or that the connection was closed.
func (r *runner) bytes(c *conn, l line) ([]string, error) {
	raw, err := hex.DecodeString(l.args[0])
	if err != nil {
		return nil, err
	}
	if _, err := c.tcp.Write(raw); err != nil && !closedByPeer(err) {
		return nil, err
	}
	payload, err := c.read()
	if err != nil {
		c.close()
		return append([]string{readText(err)}, r.sync(c)...), nil
	}
	return append([]string{"frame of " + fmt.Sprint(len(payload))}, r.sync(c)...), nil
}

// await returns once n events that no earlier await took have arrived.
func (r *runner) await(c *conn, n int) ([]string, error) {
	var answers []string
	for c.events < n {
		payload, err := c.read()
		if err != nil {
			c.close()
			return append(answers, readText(err)), nil
		}
		text, _ := r.render.frame(jute.OpPing, payload)
		answers = append(answers, text)
		c.events++
	}
	c.events -= n
	return answers, nil
}

func (l line) pathNumber() (n int64) {
	_, _ = fmt.Sscan(strings.Join(l.args, " "), &n) // 0 when it is no number
	return n
}

// sortEvents sorts the events, in the places that events have: closing a session removes its ephemerals in no order.
func sortEvents(answers []string) {
	var at []int
	var events []string
	for i, a := range answers {
		if strings.Contains(a, "event zxid=") {
			at, events = append(at, i), append(events, a)
		}
	}
	slices.Sort(events)
	for i, a := range at {
		answers[a] = events[i]
	}
}

func closedByPeer(err error) bool {
	var timeout net.Error
	return err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) &&
		(errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err))
}

func readText(err error) string {
	if closedByPeer(err) {
		return "closed"
	}
	return "no answer: " + timeoutText(err)
}

func timeoutText(err error) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	return err.Error()
}
