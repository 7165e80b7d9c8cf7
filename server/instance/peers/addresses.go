package peers

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"zkd/conf"
	"zkd/jute"
	"zkd/quorum"
	"zkd/storage/acl"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
	"zkd/storage/schema"
	"zkd/storage/serverid"
)

// Times of a reconfig that moves addresses. reachAgain is how often an address is tried where nobody answers yet;
// prepareTimeouts, in election timeouts, how long. Guesses: less than the leader waits for the answer.
const (
	reachAgain      = 50 * time.Millisecond
	prepareTimeouts = 4
)

// listenAddresses are the addresses of this server in a line of the configuration.
func (p *Peers) listenAddresses(s *ensemble.Server) []listenAddress {
	return listenAddresses(p.config, s)
}

// listenAddresses are the addresses of a server as the configuration has it listen.
func listenAddresses(c *conf.Config, s *ensemble.Server) []listenAddress {
	found := make([]listenAddress, 0, len(s.Addresses))
	for _, a := range s.Addresses {
		host := a.Host
		if c.Ensemble.ListenOnAllIPs || isUnspecified(host) {
			host = ""
		}
		port := strconv.Itoa(int(a.Port))
		found = append(found, listenAddress{bind: net.JoinHostPort(host, port), where: net.JoinHostPort(a.Host, port)})
	}
	return found
}

// openPorts listens where the state and the configuration files have this server: both, as the files follow the state.
func (p *Peers) openPorts(ctx context.Context) error {
	p.ports = &peerPorts{
		logger: p.logger, clock: p.opts.Clock, network: p.opts.Network, accept: p.streams.Accept,
		leave: p.streams.Leave, guarded: Guarded(p.config),
	}
	agreed, err := p.agreed()
	if err != nil {
		agreed = nil
	}
	own, former := startAddresses(p.config, &p.configured, agreed)
	return p.ports.begin(ctx, own, former)
}

// startAddresses are where a server that starts listens for the others: where the configuration has it, and where it
// was. agreed are the members as the state has them, nil if it has none.
func startAddresses(c *conf.Config, configured, agreed *ensemble.Config) (own, former []listenAddress) {
	me := serverid.Of(c.Ensemble.MyID)
	file, _ := configured.Server(me)
	own = listenAddresses(c, &file)
	if agreed != nil && c.Tree.Reconfig {
		if s, ok := agreed.Server(me); ok {
			return listenAddresses(c, &s), own
		}
	}
	return own, nil
}

// Addresses are where a server that starts listens for the others. agreed is the text of the members as the state has
// them, "" if it has none.
func Addresses(c *conf.Config, agreed string) ([]string, error) {
	configured, err := ensemble.Parse(strings.Join(c.Ensemble.Lines(), "\n"))
	if err != nil {
		return nil, err
	}
	var members *ensemble.Config
	if found, err := ensemble.Parse(agreed); err == nil && agreed != "" {
		members = &found
	}
	own, former := startAddresses(c, &configured, members)
	var addresses []string
	for _, a := range append(own, former...) {
		if !slices.Contains(addresses, a.bind) {
			addresses = append(addresses, a.bind)
		}
	}
	return addresses, nil
}

// mayReconfigure finds out whether the state will find that who asks for a reconfig may: that may have to be read.
func (p *Peers) mayReconfigure(asks *entry.Proposal, tell func(may bool)) {
	if asks.Flags&entry.FlagSkipACL != 0 {
		tell(true)
		return
	}
	identities := make([]jute.ID, len(asks.Identities))
	for i, id := range asks.Identities {
		identities[i] = jute.ID{Scheme: strings.Clone(id.Scheme), ID: strings.Clone(id.ID), Nulls: id.Nulls}
	}
	p.running.Go(func() {
		v := p.machine.View()
		defer v.Close()
		n, ok := v.Exists(schema.ConfigPath)
		tell(ok && acl.Allowed(n.ACL(), jute.PermWrite, identities))
	})
}

// proposed is told of a reconfig that is in the log, committed or not: this server listens where it has it before it
// may be, and looks for the others there, too.
func (p *Peers) proposed(members string) {
	next, err := ensemble.Parse(members)
	if err != nil {
		return // who applies it tells
	}
	p.coming.Store(&next)
	p.running.Go(func() { _, _ = p.offer(next) }) // told; tried again when it is committed
}

// offer listens where a configuration that may come has this server.
func (p *Peers) offer(next ensemble.Config) (listens bool, why string) {
	own, ok := next.Server(p.id)
	if !ok || !p.config.Tree.Reconfig { // then addresses come by zoo.cfg
		return true, ""
	}
	listens, err := p.ports.offer(p.ending, p.listenAddresses(&own))
	if err != nil {
		why = err.Error()
	}
	return listens, why
}

// preparation is the answer to a leader that asks to prepare a configuration.
type preparation struct {
	members string
	end     context.CancelFunc

	mu    sync.Mutex
	known quorum.PreparedAddresses       // guarded by mu
	told  bool                           // guarded by mu; whether it listens is known
	tell  func(quorum.PreparedAddresses) // guarded by mu; who asked last
}

// note adds to what is known and tells it.
func (p *preparation) note(add func(*quorum.PreparedAddresses)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add(&p.known)
	p.told = true
	answer := p.known
	answer.Reached = slices.Clone(answer.Reached)
	p.tell(answer)
}

// prepareAddresses listens where a configuration that is about to be proposed has this server, and looks whom of the
// others it reaches where that has them. It is called by one goroutine.
func (p *Peers) prepareAddresses(members string, moved []uint64, tell func(quorum.PreparedAddresses)) {
	if now := p.preparing; now != nil && now.members == members {
		now.mu.Lock()
		goesOn, told := !now.known.Done, now.told
		now.tell = tell
		now.mu.Unlock()
		if goesOn && told {
			now.note(func(*quorum.PreparedAddresses) {})
		}
		if goesOn {
			return
		}
	}
	if p.preparing != nil {
		p.preparing.end()
	}
	ctx, end := context.WithTimeout(p.ending, prepareTimeouts*p.config.Ensemble.ElectionTimeout)
	now := &preparation{members: members, end: end, tell: tell}
	p.preparing = now
	p.running.Go(func() {
		defer end()
		next, err := ensemble.Parse(members)
		if err != nil {
			now.note(func(k *quorum.PreparedAddresses) { k.Why, k.Done = err.Error(), true })
			return
		}
		listens, why := p.offer(next)
		now.note(func(k *quorum.PreparedAddresses) { k.Listens, k.Why = listens, why })
		p.reachAll(ctx, &next, moved, now)
		now.note(func(k *quorum.PreparedAddresses) { k.Done = true })
	})
}

// reachAll looks which of the servers that move can be reached where a configuration has them, until all can or ctx
// ends.
func (p *Peers) reachAll(ctx context.Context, next *ensemble.Config, moved []uint64, now *preparation) {
	var all sync.WaitGroup
	for _, id := range moved {
		s, ok := next.Server(id)
		if !ok || id == p.id {
			continue
		}
		all.Go(func() {
			if err := p.reach(ctx, id, s.PeerAddresses()); err != nil {
				p.logger.Warn("reconfig: new address unreachable", slog.Int64("peer", serverid.Number(id)),
					slog.Any("err", err))
				now.note(func(k *quorum.PreparedAddresses) { k.Why = err.Error() })
				return
			}
			now.note(func(k *quorum.PreparedAddresses) { k.Reached = append(k.Reached, id) })
		})
	}
	all.Wait()
}

// reach tries to reach a server until it does or ctx ends.
func (p *Peers) reach(ctx context.Context, id uint64, addresses []string) error {
	again := p.opts.Clock.NewTicker(reachAgain)
	defer again.Stop()
	var last error
	for {
		err := p.streams.Reach(ctx, id, addresses)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-again.C():
		case <-ctx.Done():
			return last
		}
	}
}

// settle has the ports follow a configuration.
func (p *Peers) settle(c *ensemble.Config) {
	own, ok := c.Server(p.id)
	if ok {
		var taken []string
		for i := range c.Servers {
			if c.Servers[i].ID != p.id {
				taken = append(taken, c.Servers[i].PeerAddresses()...)
			}
		}
		p.ports.settle(p.ending, p.listenAddresses(&own), taken)
	}
	p.ports.retryListen(p.ending, func(at []string) bool {
		home := map[uint64]bool{p.id: true}
		for _, s := range p.streams.Status() {
			home[s.ID] = s.In && slices.Contains(at, s.At)
		}
		return !slices.ContainsFunc(c.Servers, func(s ensemble.Server) bool { return !home[s.ID] })
	})
}
