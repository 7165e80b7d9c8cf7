package ensemble

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxied is loopback with two proxies for each pair and direction: one before the quorum port, one before the
// election port. The file of server i names the proxies that belong to i, so that each knows who dials.
type proxied struct {
	*direct
	links     map[[2]int]*link // by dialer and listener
	zookeeper bool

	mu     sync.Mutex
	wg     sync.WaitGroup
	healed *sync.Cond      // on mu: a cut has ended, or all has
	cut    map[[2]int]bool // guarded by mu; by sender and receiver
	delay  time.Duration   // guarded by mu; of every chunk on every line
	conns  map[*end][2]int // guarded by mu; every end of every live connection, with dialer and listener; nil: closed
}

// link is what server from dials instead of server to.
type link struct{ quorum, election net.Listener }

func newProxied(tb testing.TB, ids []int, zookeeper bool) *proxied {
	tb.Helper()
	p := &proxied{
		direct: newDirect(tb, ids), links: map[[2]int]*link{}, zookeeper: zookeeper,
		cut: map[[2]int]bool{}, conns: map[*end][2]int{},
	}
	p.healed = sync.NewCond(&p.mu)
	for _, from := range ids {
		for _, to := range ids {
			if from != to {
				p.links[[2]int{from, to}] = &link{p.listen(tb, from, to, 1), p.listen(tb, from, to, 2)}
			}
		}
	}
	tb.Cleanup(p.close)
	return p
}

// Cut implements Network.
func (p *proxied) Cut(from, to int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut[[2]int{from, to}] = true
}

// Heal implements Network.
func (p *proxied) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.cut)
	p.delay = 0
	for conn := range p.conns { // all of them, in whatever order
		conn.held = false
	}
	p.healed.Broadcast()
}

// Delay implements Worsener.
func (p *proxied) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// HalfOpen implements Worsener.
func (p *proxied) HalfOpen(gone, other int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, ends := range p.conns { // all that match, in whatever order
		if ends != [2]int{gone, other} && ends != [2]int{other, gone} {
			continue
		}
		if conn.peer == gone {
			_ = conn.Close()
		} else {
			conn.held = true
		}
	}
}

func (p *proxied) peerAddress(from, to int) string {
	if from == to {
		return p.direct.peerAddress(from, to)
	}
	l := p.links[[2]int{from, to}]
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	return fmt.Sprintf("127.0.0.1:%d:%d", port(l.quorum), port(l.election))
}

// end is one end of a proxied connection, which leads to server peer.
type end struct {
	net.Conn
	peer int
	held bool // guarded by proxied.mu; it stays open until Heal though the other end is closed
}

// listen serves one proxy: which is 1 for the quorum port, 2 for the election port.
func (p *proxied) listen(tb testing.TB, from, to, which int) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", p.ports[to][which])
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			p.wg.Go(func() { p.serve(&end{Conn: conn, peer: from}, addr, from, to, which == 2) })
		}
	})
	return l
}

// serve passes one connection on. A dial takes both directions, so it waits for both to be open.
func (p *proxied) serve(near *end, addr string, from, to int, election bool) {
	defer near.Close() //nolint:errcheck // however it ended
	if !p.register(near, from, to) || !p.open(from, to) || !p.open(to, from) {
		return
	}
	conn, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		p.forget(near)
		return
	}
	far := &end{Conn: conn, peer: to}
	defer far.Close() //nolint:errcheck // however it ended
	if !p.register(far, from, to) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pass(near, far, to, from, nil) })
	var hello func(io.Writer, io.Reader) error
	if election && p.zookeeper {
		hello = func(w io.Writer, r io.Reader) error { return p.passHello(w, r, from, to) }
	}
	p.pass(far, near, from, to, hello)
	both.Wait()
	p.forget(near)
	p.forget(far)
}

// pass copies what from sends to to, while that line is not cut.
func (p *proxied) pass(w, r *end, from, to int, hello func(io.Writer, io.Reader) error) {
	defer p.release(w)
	if hello != nil && hello(w, r) != nil {
		return
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if !p.open(from, to) {
			return
		}
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// passHello passes the first message of an election connection (QuorumCnxManager.InitialMessage) with the dialer's
// own address in it replaced: whoever gets it dials it, past the proxies.
func (p *proxied) passHello(w io.Writer, r io.Reader, from, to int) error {
	head := make([]byte, 20) // version, server id, length of the address
	if _, err := io.ReadFull(r, head); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(head[16:])
	version := int64(binary.BigEndian.Uint64(head)) //nolint:gosec // the wire's sign
	if version >= 0 || length > 4096 {
		return fmt.Errorf("not a hello: version %d, length %d", version, length)
	}
	if _, err := io.CopyN(io.Discard, r, int64(length)); err != nil {
		return err
	}
	addr := p.links[[2]int{to, from}].election.Addr().String()
	binary.BigEndian.PutUint32(head[16:], uint32(len(addr))) //nolint:gosec // a short address
	_, err := w.Write(append(head, addr...))
	return err
}

// open waits until the line is open and its delay is over; false: the proxy has ended.
func (p *proxied) open(from, to int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delay > 0 {
		timer := time.NewTimer(p.delay)
		p.mu.Unlock()
		<-timer.C
		p.mu.Lock()
	}
	for p.cut[[2]int{from, to}] && p.conns != nil {
		p.healed.Wait()
	}
	return p.conns != nil
}

// release closes an end, after Heal if it is held.
func (p *proxied) release(conn *end) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn.held && p.conns != nil {
		p.healed.Wait()
	}
	_ = conn.Close()
}

func (p *proxied) register(conn *end, from, to int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return false
	}
	p.conns[conn] = [2]int{from, to}
	return true
}

func (p *proxied) forget(conn *end) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

func (p *proxied) close() {
	for _, l := range p.links { // all of them, in whatever order
		_ = l.quorum.Close()
		_ = l.election.Close()
	}
	p.mu.Lock()
	for conn := range p.conns { // all of them, in whatever order
		_ = conn.Close()
	}
	p.conns = nil
	p.healed.Broadcast()
	p.mu.Unlock()
	p.wg.Wait()
}
