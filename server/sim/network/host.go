package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"
)

// Host is a machine of the network.
type Host struct {
	fabric    *Fabric
	name      string
	addrs     []netip.Addr
	up        bool                         // guarded by the fabric's lock
	boots     int                          // likewise; how often it was
	listeners map[netip.AddrPort]*listener // likewise
}

// Process is what runs on a host. It implements the network of server/instance, until it is killed.
type Process struct {
	host   *Host
	boot   int  // of the host, when it began
	killed bool // guarded by the fabric's lock
}

// Process begins a process on the host.
func (h *Host) Process() *Process {
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	return &Process{host: h, boot: h.boots}
}

// dead tells whether the process is no more.
func (p *Process) dead() bool { return p.killed || p.boot != p.host.boots || !p.host.up }

// firstPort is the least port that a dialer or a listener without one is given.
const firstPort = 32768

// dialTimeout is how long a system tries to open a connection to somebody who does not answer.
const dialTimeout = 127 * time.Second

// errKilled is what a process that was killed is told: nobody hears it.
var errKilled = errors.New("the process was killed")

// errNotHere is what is asked of the world beyond the network.
var errNotHere = errors.New("there is nothing but the hosts of the simulation")

// Name is the name of the host.
func (h *Host) Name() string { return h.name }

// Addr is its first address.
func (h *Host) Addr() netip.Addr { return h.addrs[0] }

// Kill ends a process: its listeners, and its connections, of which the others hear after a delay. It opens nothing
// more.
func (p *Process) Kill() {
	f := p.host.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	p.killed = true
	p.host.closeListeners(p)
	for _, c := range f.ends(p.host) {
		if c.proc != p {
			continue
		}
		c.end(syscall.ECONNABORTED)
		c.closed = true
		c.pair.forget()
		other := c.other
		f.after(f.delay(c.host, other.host, 0), func() { other.end(syscall.ECONNRESET) })
	}
}

// PowerOff takes the host from the network, with all that runs on it. Nobody hears of it; who writes on a connection
// with it hears when it is up again.
func (h *Host) PowerOff() {
	f := h.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	h.up = false
	h.closeListeners(nil)
	for _, c := range f.ends(h) {
		c.end(syscall.ECONNABORTED)
		c.orphan = true
		c.other.in, c.other.inBytes = nil, 0
		if c.other.host == h {
			c.pair.forget()
		}
	}
}

// PowerOn puts it back, with nothing open, unless it is there. Who has sent anything meanwhile, and is asked for it
// again, is told that his connection is unknown.
func (h *Host) PowerOn() {
	f := h.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.up {
		return
	}
	h.up = true
	h.boots++
	for _, c := range f.ends(h) {
		if other := c.other; c.orphan && (len(c.in) > 0 || !c.finAt.IsZero()) {
			c.pair.forget()
			f.after(f.delay(h, other.host, 0), func() { other.end(syscall.ECONNRESET) })
		}
	}
}

// closeListeners closes those of a process, or all.
func (h *Host) closeListeners(of *Process) {
	all := slices.SortedFunc(maps.Values(h.listeners), func(a, b *listener) int { return a.at.Compare(b.at) })
	for _, l := range all { // in order: who waits for them wakes
		if of == nil || l.proc == of {
			l.close()
		}
	}
}

// ends returns the ends at a host of all connections, in the order of their making.
func (f *Fabric) ends(h *Host) (ends []*conn) {
	for _, p := range f.conns[h] {
		for _, c := range []*conn{p.dialer, p.accepted} {
			if c.host == h {
				ends = append(ends, c)
			}
		}
	}
	return ends
}

// after does something later, with the lock held.
func (f *Fabric) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		do()
	})
}

// Listen opens a port; an address without a host is all of the host's.
func (p *Process) Listen(_ context.Context, address string, _ int) (net.Listener, error) {
	h := p.host
	f := h.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.dead() {
		return nil, errKilled
	}
	at, err := f.resolve(h, address)
	if err != nil {
		return nil, err
	}
	if at.Addr().IsValid() && !at.Addr().IsUnspecified() && f.byAddr[at.Addr()] != h && !at.Addr().IsLoopback() {
		return nil, listenFailed(at, syscall.EADDRNOTAVAIL)
	}
	if at.Port() == 0 {
		at = netip.AddrPortFrom(at.Addr(), f.port(h))
	}
	for o := range h.listeners { // order: any will do
		if o.Port() == at.Port() && (o.Addr() == at.Addr() || o.Addr().IsUnspecified() || at.Addr().IsUnspecified()) {
			return nil, listenFailed(at, syscall.EADDRINUSE)
		}
	}
	l := &listener{host: h, proc: p, at: at, wake: make(chan struct{})}
	h.listeners[at] = l
	return l, nil
}

// listenFailed is what a system returns.
func listenFailed(at netip.AddrPort, err error) error {
	return &net.OpError{Op: "listen", Net: "tcp", Addr: net.TCPAddrFromAddrPort(at),
		Err: os.NewSyscallError("bind", err)}
}

// port draws a port that nobody has.
func (f *Fabric) port(h *Host) uint16 {
	if f.ports[h]++; f.ports[h] < firstPort {
		f.ports[h] = firstPort
	}
	return f.ports[h]
}

// resolve reads an address as seen from a host.
func (f *Fabric) resolve(from *Host, address string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil {
		return netip.AddrPort{}, err
	}
	var addr netip.Addr
	switch found := f.byName[host]; {
	case host == "":
		addr = netip.IPv4Unspecified()
	case host == "localhost":
		addr = from.addrs[0]
	case found != nil:
		addr = found.addrs[0]
	default:
		if addr, err = netip.ParseAddr(host); err != nil {
			return netip.AddrPort{}, unknownName(host)
		}
		addr = addr.Unmap()
	}
	return netip.AddrPortFrom(addr, uint16(n)), nil //nolint:gosec // LookupPort has looked
}

// unknownName is what a name server answers.
func unknownName(host string) error {
	return &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// Dial implements the network of server/instance. Connections are looked after by nobody but their users.
func (p *Process) Dial(ctx context.Context, address string, _ bool) (net.Conn, error) {
	f := p.host.fabric
	f.mu.Lock()
	to, err := f.resolve(p.host, address)
	f.mu.Unlock()
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	failed := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	end := time.NewTimer(dialTimeout)
	defer end.Stop()
	var arrives time.Time // when the first answer does; zero: nothing is on its way
	for {
		there, way, err := p.route(to)
		if err != nil {
			return failed(err)
		}
		wait := synWait
		if at := time.Now().Add(way); there == nil {
			arrives = time.Time{}
		} else if arrives.IsZero() || at.Before(arrives) {
			arrives = at
		}
		if !arrives.IsZero() {
			wait = min(wait, time.Until(arrives))
		}
		if err := await(ctx, wait, end); err != nil {
			return failed(err)
		}
		if arrives.IsZero() || time.Now().Before(arrives) {
			continue
		}
		c, err := p.connect(there, to)
		if err != nil {
			return failed(err)
		}
		if c != nil {
			return c, nil
		}
		arrives = time.Time{}
	}
}

// await lets d pass, unless what dials is given up before, or for too long.
func await(ctx context.Context, d time.Duration, end *time.Timer) error {
	passed := time.NewTimer(d)
	defer passed.Stop()
	select {
	case <-passed.C:
		return nil
	case <-end.C:
		return os.NewSyscallError("connect", syscall.ETIMEDOUT)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// synWait is how long a system waits before it asks again for a connection; what it has asked before may yet arrive.
const synWait = time.Second

// route finds who is at an address, nil if nobody can be reached, and how long what opens a connection is on its way,
// there and back.
func (p *Process) route(to netip.AddrPort) (there *Host, way time.Duration, err error) {
	h := p.host
	f := h.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.dead() {
		return nil, 0, errKilled
	}
	there = f.byAddr[to.Addr()]
	if to.Addr().IsLoopback() || to.Addr().IsUnspecified() {
		there = h
	}
	if there == nil || !there.up || !h.up || f.link(h, there).cut || f.link(there, h).cut {
		return nil, 0, nil
	}
	return there, f.delay(h, there, 0) + f.delay(there, h, 0), nil
}

// connect opens a connection; with neither one nor an error, nobody has answered.
func (p *Process) connect(there *Host, to netip.AddrPort) (*conn, error) {
	h := p.host
	f := h.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.dead() {
		return nil, errKilled
	}
	if !there.up || !h.up {
		return nil, nil //nolint:nilnil // said above
	}
	l := there.listeners[to]
	if l == nil {
		l = there.listeners[netip.AddrPortFrom(netip.IPv4Unspecified(), to.Port())]
	}
	if l == nil {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	made := &pair{fabric: f}
	from := netip.AddrPortFrom(h.addrs[0], f.port(h))
	made.dialer = &conn{pair: made, proc: p, host: h,
		local: *net.TCPAddrFromAddrPort(from), remote: *net.TCPAddrFromAddrPort(to)}
	made.accepted = &conn{pair: made, proc: l.proc, host: there,
		local: *net.TCPAddrFromAddrPort(to), remote: *net.TCPAddrFromAddrPort(from)}
	made.dialer.other, made.accepted.other = made.accepted, made.dialer
	f.conns[h] = append(f.conns[h], made)
	if there != h {
		f.conns[there] = append(f.conns[there], made)
	}
	l.offer(made.accepted)
	return made.dialer, nil
}

// LookupNetIP implements the network of server/instance.
func (p *Process) LookupNetIP(_ context.Context, host string) ([]netip.Addr, error) {
	h := p.host
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	if host == "localhost" {
		return h.addrs, nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if found := h.fabric.byName[host]; found != nil {
		return found.addrs, nil
	}
	return nil, unknownName(host)
}

// LookupAddr implements the network of server/instance: nobody is known by an address.
func (*Process) LookupAddr(_ context.Context, addr string) ([]string, error) {
	return nil, unknownName(addr)
}

// Do implements the network of server/instance.
func (*Process) Do(*http.Request) (*http.Response, error) { return nil, errNotHere }

// String names the host.
func (h *Host) String() string { return fmt.Sprintf("%s(%v)", h.name, h.addrs[0]) }
