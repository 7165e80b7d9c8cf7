package attack

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// Settings of the healthy client.
const (
	healthyEvery = 10 * time.Millisecond
	// unansweredMax is how many requests of one kind may wait: those of many minutes.
	unansweredMax = 1 << 17
	// againEvery is how often it tries to connect when it was cut off.
	againEvery = 20 * time.Millisecond
	// lastAnswerWithin bounds the wait for the answers when it stops: 3.9.5 stood still for 77 s once.
	lastAnswerWithin = 2 * time.Minute
)

// healthyAddress is where it comes from: not from where the attackers do, who are 127.0.0.1.
const healthyAddress = "127.0.0.2"

// healthyPath is its znode.
const healthyPath = "/healthy"

// healthy is a client that writes and reads every ten milliseconds, whatever becomes of the answers before. It is a
// process of its own (beHealthy): among a thousand attackers it would wait for them, and not for the server.
type healthy struct {
	addr  string
	ctx   context.Context
	stop  chan struct{} // closed when it is to end
	ended chan struct{} // closed when the servers have ended
	lanes sync.WaitGroup

	mu     sync.Mutex
	report Report
}

// Report is what came of it, as its process tells it.
type Report struct {
	Samples []Sample
	Written int64 // the highest number that was acknowledged
	Err     string
}

// Sample is one request: when it was sent, and how long its client waited.
type Sample struct {
	At   time.Time
	Took time.Duration
	Lost bool // it was not answered: Took is until the client was served again
}

// healthyEnv has a process of the tests be the healthy client of the server at that address.
const healthyEnv = "ZKD_ATTACK_HEALTHY"

// beHealthy is such a process. It writes and reads until its input ends, and then tells out what came of it. Anything
// that it is told says that the servers have ended.
func beHealthy(addr string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := &healthy{addr: addr, ctx: ctx, stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(h.stop)
		if n, _ := in.Read(make([]byte, 1)); n > 0 {
			close(h.ended)
			_, _ = io.Copy(io.Discard, in) // until its end, or its loss, which is one as well
		}
	}()
	h.lanes.Go(func() {
		h.lane(func(b []byte, n int64, xid jute.Xid) []byte {
			r := jute.SetDataRequest{Path: healthyPath, Data: strconv.AppendInt(nil, n, 10), Version: -1}
			return client.Request(b, xid, jute.OpSetData, r.Append)
		}, h.acknowledged)
	})
	h.lanes.Go(func() {
		h.lane(func(b []byte, _ int64, xid jute.Xid) []byte {
			return client.Request(b, xid, jute.OpGetData, (&jute.PathWatchRequest{Path: healthyPath}).Append)
		}, nil)
	})
	h.lanes.Wait()
	return gob.NewEncoder(out).Encode(&h.report)
}

// healthyClient is the process of the healthy client, as who measures has it.
type healthyClient struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	told  bytes.Buffer
	over  chan struct{} // closed when nobody needs to know of servers that end
}

// startHealthy makes the znode and begins.
func startHealthy(f *Field) (*healthyClient, error) {
	err := f.Session(func(c *client.Conn) error { return create(c, healthyPath, []byte("0")) })
	if err != nil {
		return nil, fmt.Errorf("make the znode of the healthy client: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &healthyClient{over: make(chan struct{})}
	h.cmd = exec.CommandContext(f.ctx, program)
	h.cmd.Env = append(os.Environ(), healthyEnv+"="+f.Addr)
	h.cmd.Stdout, h.cmd.Stderr = &h.told, os.Stderr
	if h.input, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go h.watch(f)
	return h, nil
}

// watch tells the client when the servers have ended: it would try to connect for minutes.
func (h *healthyClient) watch(f *Field) {
	poll := time.NewTicker(againEvery)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
		case <-h.over:
			return
		}
		if f.alive() != nil {
			_, _ = h.input.Write([]byte{0}) // it may be at its end
			return
		}
	}
}

// end stops the client when all of its requests are answered, and returns what came of it, which may be an error and
// something beside it.
func (h *healthyClient) end() (r Report, err error) {
	close(h.over)
	err = errors.Join(h.input.Close(), h.cmd.Wait())
	if err == nil {
		err = gob.NewDecoder(&h.told).Decode(&r)
	}
	if err == nil && r.Err != "" {
		err = errors.New(r.Err)
	}
	if err != nil {
		err = fmt.Errorf("the healthy client: %w", err)
	}
	return r, err
}

// acknowledged takes note of a number that the server has.
func (h *healthy) acknowledged(n int64) {
	h.mu.Lock()
	h.report.Written = max(h.report.Written, n)
	h.mu.Unlock()
}

// stopped reports whether the client is to end.
func (h *healthy) stopped() bool {
	select {
	case <-h.stop:
		return true
	case <-h.ended:
		return true
	default:
		return false
	}
}

// sent is a request on its way.
type sent struct {
	at time.Time
	n  int64
}

// lane sends one kind of request, over as many connections as it takes.
func (h *healthy) lane(encode func(b []byte, n int64, xid jute.Xid) []byte, acknowledged func(int64)) {
	var n int64
	var since time.Time // when it was cut off
	var lost []sent
	for {
		c, err := h.connect()
		if err != nil {
			h.mu.Lock()
			h.report.Err = err.Error()
			h.mu.Unlock()
			return
		}
		l := life{h: h, c: c, n: n, encode: encode, acknowledged: acknowledged, lost: lost, since: since}
		whole := l.run()
		c.Cut()
		if whole {
			return
		}
		n, lost, since = l.n, l.lost, time.Now()
	}
}

// connect opens a session, and tries until it can.
func (h *healthy) connect() (c *client.Conn, err error) {
	ctx, cancel := context.WithTimeout(h.ctx, lastAnswerWithin)
	defer cancel()
	poll := time.NewTicker(againEvery)
	defer poll.Stop()
	for {
		attempt, done := context.WithTimeout(ctx, callWithin)
		c, err = client.Dial(attempt, client.Options{Addr: h.addr, Timeout: 40 * time.Second, Now: time.Now,
			Dial: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(healthyAddress)}}).DialContext})
		done()
		if err == nil {
			return c, nil
		}
		select {
		case <-poll.C:
		case <-h.ended:
			return nil, errServerEnded
		case <-ctx.Done():
			return nil, fmt.Errorf("the healthy client is not served: %w", err)
		}
	}
}

// life is one connection of a lane.
type life struct {
	h            *healthy
	c            *client.Conn
	n            int64 // of the latest request
	encode       func(b []byte, n int64, xid jute.Xid) []byte
	acknowledged func(int64)
	lost         []sent    // not answered by those before
	since        time.Time // the end of the one before
}

// run sends and receives until the client is to end and all is answered: true. false: the connection was cut.
func (l *life) run() bool {
	under := make(chan sent, unansweredMax)
	failed := make(chan struct{})
	go l.send(under, failed)
	for s := range under {
		if err := l.receive(s); err != nil {
			l.c.Cut()
			close(failed)
			l.lost = append(l.lost, s)
			for s := range under {
				l.lost = append(l.lost, s)
			}
			return false
		}
	}
	return true
}

// send sends a request at each tick. It closes under when it ends.
func (l *life) send(under chan<- sent, failed <-chan struct{}) {
	defer close(under)
	ticker := time.NewTicker(healthyEvery)
	defer ticker.Stop()
	var b []byte
	for !l.h.stopped() {
		select {
		case <-ticker.C:
		case <-failed:
			return
		}
		l.n++
		b = l.encode(b[:0], l.n, l.c.NextXid())
		under <- sent{time.Now(), l.n}
		if l.c.Write(b) != nil { // who receives finds out
			return
		}
	}
}

// receive takes the answer to one request.
func (l *life) receive(s sent) error {
	if err := l.c.SetDeadline(lastAnswerWithin); err != nil {
		return err
	}
	header, _, err := l.c.ReadReply()
	if err == nil && header.Err != jute.OK {
		err = fmt.Errorf("answer to the healthy client: %v", header.Err)
	}
	if err != nil {
		return err
	}
	came := time.Now().Add(-l.c.Lag())
	if l.acknowledged != nil {
		l.acknowledged(s.n)
	}
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	for _, before := range l.lost { // served again
		l.h.report.Samples = append(l.h.report.Samples, Sample{before.at, came.Sub(before.at), true})
	}
	l.lost = nil
	l.h.report.Samples = append(l.h.report.Samples, Sample{s.at, came.Sub(s.at), false})
	return nil
}
