package target

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy passes TCP connections on to a server and can cut them, as a broken network would.
type Proxy struct {
	Addr string // where clients connect

	to       string
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu; both sides of every live connection, nil once closed
}

// CutServer returns an address; each connection made to it cuts the proxy's connections and is then closed, so that a
// client program in any language can ask for the cut and wait for it by reading to the end.
func (p *Proxy) CutServer(tb testing.TB) string {
	tb.Helper()
	return p.actOnConnect(tb, p.Cut)
}

// CloseServer is CutServer, but the proxy is closed for good.
func (p *Proxy) CloseServer(tb testing.TB) string {
	tb.Helper()
	return p.actOnConnect(tb, p.Close)
}

func (p *Proxy) actOnConnect(tb testing.TB, act func()) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			act()
			_ = conn.Close()
		}
	}()
	tb.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// StartProxy starts a proxy to addr; it ends with the test.
func StartProxy(tb testing.TB, addr string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), to: addr, listener: l, conns: map[net.Conn]struct{}{}}
	p.wg.Add(1)
	go p.accept()
	tb.Cleanup(func() {
		p.Close()
		p.wg.Wait()
	})
	return p
}

// Close ends the proxy for good: its connections are cut and nobody is served any more.
func (p *Proxy) Close() {
	_ = p.listener.Close() // may be closed already
	p.closeAll(true)
}

// Cut closes every connection that passes through now; later ones are served.
func (p *Proxy) Cut() { p.closeAll(false) }

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil || !p.register(client, server) {
			_ = client.Close()
			continue
		}
		p.wg.Add(2)
		go p.pass(client, server)
		go p.pass(server, client)
	}
}

// register reports false when the proxy has ended, and closes server then.
func (p *Proxy) register(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		_ = server.Close()
		return false
	}
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	return true
}

func (p *Proxy) pass(to, from net.Conn) {
	defer p.wg.Done()
	_, _ = io.Copy(to, from) // however it ends, both sides are closed
	_ = to.Close()
	_ = from.Close()
	p.mu.Lock()
	delete(p.conns, to)
	delete(p.conns, from)
	p.mu.Unlock()
}

func (p *Proxy) closeAll(forGood bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns { // all of them, in whatever order
		_ = conn.Close()
	}
	if forGood {
		p.conns = nil
	}
}
