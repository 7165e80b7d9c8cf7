package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"zkd/quorum/clock"
)

// How long a server listens where the others do not dial it any more, or not yet. Guesses: for as long as a member may
// be away that knows former addresses alone, and for longer than any reconfig is on its way.
const (
	formerFor  = time.Hour
	offeredFor = 10 * time.Minute
)

// Back-off of a port that cannot be opened, doubled from the least to the most. Guesses: who has it may be about to
// stop.
const (
	portRetryLeast = time.Second
	portRetryMost  = 10 * time.Second
)

// listenAddress is an address of this server for the others.
type listenAddress struct {
	bind  string // what is listened on; the host is empty for all addresses of the machine
	where string // what the others dial
}

// peerPort is a port for servers that is open.
type peerPort struct {
	listenAddress
	listener net.Listener
	until    time.Time // it is not where the configuration has this server, and open no longer than that; zero: it is
	former   bool      // it was there
}

// unopened is an address of the configuration that cannot be listened on.
type unopened struct {
	listenAddress
	err   error
	wait  time.Duration
	again time.Time // when it is tried again
}

// portsNetwork opens ports, and tells what is meant by a name.
type portsNetwork interface {
	// Listen opens a port, with as many connections held before they are accepted as the system likes if backlog is 0.
	Listen(ctx context.Context, address string, backlog int) (net.Listener, error)
	Names
}

// Names finds the addresses of a name.
type Names interface {
	// LookupNetIP is net.Resolver.LookupNetIP, for both kinds of addresses.
	LookupNetIP(ctx context.Context, host string) ([]netip.Addr, error)
}

// peerPorts are the ports at which this server listens for the others: where the configuration has it, where a reconfig
// that is on its way has it, and for a while where it was.
type peerPorts struct {
	logger  *slog.Logger
	clock   clock.Clock
	network portsNetwork
	accept  func(net.Listener) // has others let in
	leave   func(net.Listener) // closes it
	guarded bool               // nobody comes in without a proof or a certificate

	mu     sync.Mutex
	own    []listenAddress // guarded by mu; where the configuration has this server
	open   []*peerPort     // guarded by mu
	closed []*unopened     // guarded by mu; those of own that are not open
}

// ListenPurpose is what these ports are opened for, as an error has it.
const ListenPurpose = "listen for the other servers on the peer port of the own server line"

// begin opens the ports of a server that starts: where the configuration has it, and where it was. One at least is
// needed.
func (p *peerPorts) begin(ctx context.Context, own, former []listenAddress) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own = own
	err := p.openOwnLocked(ctx)
	for _, s := range former {
		if p.atLocked(s) == nil {
			_, failed := p.openLocked(ctx, s, formerFor, true)
			err = errors.Join(err, failed)
		}
	}
	if len(p.open) == 0 {
		return fmt.Errorf("%s: %w", ListenPurpose, err)
	}
	return nil
}

// settle says where the configuration has this server; taken are the addresses of the others, which it leaves at once.
// What it was before is kept for a while.
func (p *peerPorts) settle(ctx context.Context, own []listenAddress, taken []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(p.own, own) {
		return
	}
	p.logger.Info("peer addresses changing", slog.Any("from", wheres(p.own)),
		slog.Any("to", wheres(own)))
	p.own, p.closed = own, nil
	until := p.clock.Now().Add(formerFor)
	for _, port := range p.open {
		if port.until.IsZero() && !slices.ContainsFunc(own, func(s listenAddress) bool { return p.serves(port, s) }) {
			port.until, port.former = until, true
		}
	}
	p.closeLocked("another server is to have it", func(port *peerPort) bool {
		return !port.until.IsZero() && slices.Contains(taken, port.where)
	})
	_ = p.openOwnLocked(ctx) // told, and tried again
}

// offer opens ports where a reconfig that is on its way has this server. The error says which cannot be opened; listens
// whether one of them is there.
func (p *peerPorts) offer(ctx context.Context, spots []listenAddress) (listens bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range spots {
		port, failed := p.atLocked(s), error(nil)
		if port == nil {
			port, failed = p.openLocked(ctx, s, offeredFor, false)
		} else if !port.until.IsZero() && !port.former {
			port.until = p.clock.Now().Add(offeredFor)
		}
		listens = listens || port != nil
		if failed != nil {
			p.logger.Warn("reconfig: cannot listen on the new address",
				slog.String("address", s.where), slog.Any("err", failed))
			err = errors.Join(err, failed)
		}
	}
	return listens, err
}

// retryListen opens what could not be opened, and closes what is not needed any more. home says whether all the others
// have come to where the configuration has this server.
func (p *peerPorts) retryListen(ctx context.Context, home func(at []string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for _, c := range p.closed {
		if !now.Before(c.again) {
			_ = p.openOwnLocked(ctx) // told
			break
		}
	}
	var at []string
	for _, port := range p.open {
		if port.until.IsZero() {
			at = append(at, port.listener.Addr().String())
		}
	}
	if len(at) == 0 { // there is nothing better
		return
	}
	over := func(port *peerPort) bool { return !port.until.IsZero() && now.After(port.until) }
	p.closeLocked("nobody needs it any more", over)
	if slices.ContainsFunc(p.open, func(port *peerPort) bool { return port.former }) && home(at) {
		p.closeLocked("all others have moved", func(port *peerPort) bool { return port.former })
	}
}

// openOwnLocked opens what is not open of where the configuration has this server.
func (p *peerPorts) openOwnLocked(ctx context.Context) error {
	var errs []error
	before := p.closed
	p.closed = nil
	for _, s := range p.own {
		if port := p.atLocked(s); port != nil {
			port.until, port.former = time.Time{}, false
			continue
		}
		_, err := p.openLocked(ctx, s, 0, false)
		if err == nil {
			continue
		}
		errs = append(errs, err)
		c := &unopened{listenAddress: s, wait: portRetryLeast}
		if n := slices.IndexFunc(before, func(b *unopened) bool { return b.listenAddress == s }); n >= 0 {
			c.wait = min(2*before[n].wait, portRetryMost)
		}
		c.err, c.again = err, p.clock.Now().Add(c.wait)
		p.closed = append(p.closed, c)
		p.logger.Error("cannot listen on the configured peer address", slog.String("address", s.where),
			slog.Any("err", err), slog.Any("listens", p.whereLocked()), slog.Duration("again", c.wait))
	}
	return errors.Join(errs...)
}

// openLocked opens a port: for good if within is 0.
func (p *peerPorts) openLocked(ctx context.Context, s listenAddress, within time.Duration, former bool) (
	*peerPort, error,
) {
	l, err := p.network.Listen(ctx, s.bind, 0)
	if err != nil {
		return nil, err
	}
	port := &peerPort{listenAddress: s, listener: l, former: former}
	if within > 0 {
		port.until = p.clock.Now().Add(within)
	}
	p.open = append(p.open, port)
	p.accept(l)
	p.logger.Info("peer port listening", slog.String("address", l.Addr().String()),
		slog.Bool("former", former), slog.Bool("proposed", within > 0 && !former))
	p.warnOfStrangers(l)
	return port, nil
}

// closeLocked closes ports.
func (p *peerPorts) closeLocked(why string, which func(*peerPort) bool) {
	p.open = slices.DeleteFunc(p.open, func(port *peerPort) bool {
		if !which(port) {
			return false
		}
		p.logger.Info("peer port closed", slog.String("address", port.listener.Addr().String()),
			slog.String("because", why))
		p.leave(port.listener)
		return true
	})
}

// atLocked returns the open port that serves an address, nil if none does.
func (p *peerPorts) atLocked(s listenAddress) *peerPort {
	for _, port := range p.open {
		if p.serves(port, s) {
			return port
		}
	}
	return nil
}

// serves tells whether who dials s comes to a port.
func (p *peerPorts) serves(port *peerPort, s listenAddress) bool {
	return port.bind == s.bind || ListensAt(p.network, port.listener.Addr(), s.bind)
}

// where returns the addresses at which the others reach this server, the best first. All addresses of a machine are
// none of them: everybody would find himself there.
func (p *peerPorts) where() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(p.whereLocked(), func(address string) bool {
		host, _, err := net.SplitHostPort(address)
		return err != nil || host == "" || isUnspecified(host)
	})
}

func (p *peerPorts) whereLocked() []string {
	var own, others []string
	for _, port := range p.open {
		switch {
		case port.until.IsZero():
			own = append(own, port.listenAddress.where)
		case port.former:
			others = append(others, port.listenAddress.where)
		}
	}
	return append(own, others...)
}

// portsStatus is where a server listens.
type portsStatus struct{ own, former, closed []string }

// status says where this server listens, and where it should and cannot.
func (p *peerPorts) status() (s portsStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range p.open {
		if port.until.IsZero() {
			s.own = append(s.own, port.listenAddress.where)
		} else {
			s.former = append(s.former, port.listenAddress.where)
		}
	}
	for _, c := range p.closed {
		s.closed = append(s.closed, c.where)
	}
	return s
}

// wheres are what the others dial.
func wheres(spots []listenAddress) []string {
	found := make([]string, 0, len(spots))
	for _, s := range spots {
		found = append(found, s.where)
	}
	return found
}

// ownNameWithin bounds how long the name of an own address may be looked up for a comparison. A guess.
const ownNameWithin = 2 * time.Second

// ListensAt tells whether a listener is where address, host:port, leads: an empty host is every one, and a name is
// looked up.
func ListensAt(names Names, listener net.Addr, address string) bool {
	tcp, ok := listener.(*net.TCPAddr)
	host, port, err := net.SplitHostPort(address)
	if !ok || err != nil || port != fmt.Sprint(tcp.Port) || tcp.Port == 0 {
		return false
	}
	at, ok := netip.AddrFromSlice(tcp.IP)
	at = at.Unmap()
	every := !ok || at.IsUnspecified()
	if host == "" || isUnspecified(host) {
		return every
	}
	if every {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap() == at
	}
	ctx, cancel := context.WithTimeout(context.Background(), ownNameWithin)
	defer cancel()
	found, err := names.LookupNetIP(ctx, host)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(found, func(ip netip.Addr) bool { return ip.Unmap() == at })
}

// Widens tells whether address, host:port, is every address of the machine on a listener's port.
func Widens(listener net.Addr, address string) bool {
	tcp, ok := listener.(*net.TCPAddr)
	host, port, err := net.SplitHostPort(address)
	return ok && err == nil && port == fmt.Sprint(tcp.Port) && (host == "" || isUnspecified(host))
}

// isUnspecified tells whether host is an address that stands for all.
func isUnspecified(host string) bool {
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsUnspecified()
}
