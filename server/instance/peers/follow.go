package peers

import (
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"zkd/conf"
	"zkd/quorum/transport"
	"zkd/quorum/warning"
	"zkd/storage/ensemble"
)

// Times about members that come and go. Guesses: a server that wants to be let in calls every three seconds at most;
// one that was removed should hear of it before its connections are closed.
const (
	askingFor   = 10 * time.Second
	lingerFor   = 5 * time.Second
	followEvery = time.Second
)

// asking is which servers that are no members have called of late.
type asking struct {
	mu   sync.Mutex
	last map[uint64]time.Time // guarded by mu; at most askingMax
}

// askingMax bounds how many servers are remembered: anybody may claim any id.
const askingMax = 256

// note takes note of a call.
func (a *asking) note(id uint64, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = map[uint64]time.Time{}
	}
	if len(a.last) >= askingMax {
		maps.DeleteFunc(a.last, func(_ uint64, at time.Time) bool { return now.Sub(at) > askingFor })
	}
	if _, known := a.last[id]; known || len(a.last) < askingMax {
		a.last[id] = now
	}
}

// lately tells whether a server has called of late.
func (a *asking) lately(id uint64, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.last[id]
	return ok && now.Sub(at) <= askingFor
}

// called is told that a server that is no member has called.
func (p *Peers) called(id uint64) { p.asking.note(id, p.opts.Clock.Now()) }

// asks tells whether a server that is no member has called of late.
func (p *Peers) asks(id uint64) bool { return p.asking.lately(id, p.opts.Clock.Now()) }

// dialedPeer is a server that streams go to.
type dialedPeer struct {
	addresses []string
	former    []string  // where it was before
	until     time.Time // how long it is looked for there
	gone      time.Time // since when it is in no configuration; zero: it is in one
}

// follow brings the streams, and the files of the configuration, in step with the members that the state has.
func (p *Peers) follow() {
	ticker := p.opts.Clock.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.changed:
			p.reconnect()
			p.compare()
			p.writeFiles()
		case <-ticker.C(): // those that have left may have been told by now
			p.reconnect()
			if p.unwritten {
				p.writeFiles()
			}
		case <-p.halt:
			return
		}
	}
}

// MembersChanged says that the state may have other members. It does not block.
func (p *Peers) MembersChanged() {
	select {
	case p.changed <- struct{}{}:
	default: // it has a token already
	}
}

// reconnect has the streams go to the members of the state, or as long as it has none, of the configuration. One that
// is not in it any more is kept for a while, to be told, and as long as it takes part.
func (p *Peers) reconnect() {
	present, err := p.agreed()
	if err != nil {
		p.logger.Error("cannot parse the membership: upgrade zkd", slog.Any("err", err))
		return
	}
	if present == nil {
		present = &p.configured
	} else if !p.config.Tree.Reconfig { // then new addresses come by zoo.cfg
		present = p.withConfigured(present)
	}
	p.led = p.led || p.node != nil && p.node.Status().Leader != 0
	p.place(p.withThoseOfTheFile(present), p.group())
	where := make(map[uint64]transport.Peer, len(p.known))
	for id, s := range p.known { // order: each for itself
		where[id] = transport.Peer{Addresses: s.addresses, Former: p.elsewhere(id, s)}
	}
	p.streams.SetPeers(where)
	p.settle(present)
}

// withThoseOfTheFile returns the members, and with them, before this server has had a leader, those of zoo.cfg: one
// that was removed while it was down, and comes back on its data to be added again, knows nobody who has come since.
func (p *Peers) withThoseOfTheFile(present *ensemble.Config) *ensemble.Config {
	if p.led {
		return present
	}
	c := ensemble.Config{Servers: slices.Clone(present.Servers)}
	for i := range p.configured.Servers {
		if _, ok := c.Server(p.configured.Servers[i].ID); !ok {
			c.Servers = append(c.Servers, p.configured.Servers[i])
		}
	}
	return &c
}

// elsewhere returns where a server may be that is not where the configuration has it: where it was, where a reconfig in
// the log has it, and, before this server has had a leader, which it may have missed changes of, where zoo.cfg has it.
func (p *Peers) elsewhere(id uint64, s *dialedPeer) []string {
	var found []string
	if p.opts.Clock.Now().Before(s.until) {
		found = s.former
	}
	if next := p.coming.Load(); next != nil {
		if there, ok := next.Server(id); ok {
			found = slices.Concat(found, there.PeerAddresses())
		}
	}
	if there, ok := p.configured.Server(id); ok && !p.led && !slices.Equal(there.PeerAddresses(), s.addresses) {
		found = slices.Concat(found, there.PeerAddresses())
	}
	return found
}

// withConfigured returns the members with the addresses of zoo.cfg, where they are in it.
func (p *Peers) withConfigured(agreed *ensemble.Config) *ensemble.Config {
	c := ensemble.Config{Servers: slices.Clone(p.configured.Servers)}
	for i := range agreed.Servers {
		if _, ok := c.Server(agreed.Servers[i].ID); !ok {
			c.Servers = append(c.Servers, agreed.Servers[i])
		}
	}
	return &c
}

// group is who takes part, with or without a vote, as far as this server knows.
func (p *Peers) group() []uint64 {
	if p.node == nil {
		return nil
	}
	s := p.node.Status()
	return slices.Concat(s.Voters, s.Learners, s.Strangers)
}

// place brings p.known in step with c. A member of the group that is not in it keeps its vote until the others have
// caught up, and they may need that vote after they have started again; or it came while this server was away, and may
// lead by now. Of where it is no more is known than the configuration file says, and what it says itself when it dials.
func (p *Peers) place(c *ensemble.Config, group []uint64) {
	if p.known == nil {
		p.known = map[uint64]*dialedPeer{}
	}
	now := p.opts.Clock.Now()
	maps.DeleteFunc(p.known, func(id uint64, s *dialedPeer) bool {
		if _, stays := c.Server(id); stays || slices.Contains(group, id) {
			s.gone = time.Time{}
			return false
		}
		if s.gone.IsZero() {
			s.gone = now
		}
		return now.Sub(s.gone) > lingerFor
	})
	for i := range c.Servers {
		s := &dialedPeer{addresses: c.Servers[i].PeerAddresses()}
		if before := p.known[c.Servers[i].ID]; before != nil {
			s.former, s.until = before.former, before.until
			if !slices.Equal(before.addresses, s.addresses) {
				s.former, s.until = before.addresses, now.Add(formerFor)
			}
		}
		p.known[c.Servers[i].ID] = s
	}
	for _, id := range group {
		if p.known[id] == nil {
			s, _ := p.configured.Server(id)
			p.known[id] = &dialedPeer{addresses: s.PeerAddresses()}
		}
	}
}

// moveClients has the port for clients follow the configuration.
func (p *Peers) moveClients(addr string) {
	if addr == "" || addr == p.client || !p.config.Tree.Reconfig {
		return
	}
	p.client = addr
	select {
	case <-p.opts.ClientAddresses: // not seen yet, and past
	default:
	}
	p.opts.ClientAddresses <- addr // nobody else writes
}

// writeFiles has the dynamic configuration file follow the members, as ZooKeeper does with reconfigEnabled. A server
// that does not belong to them any more keeps its files, and so does one that has had no leader since its start: it may
// have been removed meanwhile, and the operator may have written those of now into them. What fails is tried again each
// second.
func (p *Peers) writeFiles() {
	agreed, err := p.agreed()
	if err != nil || agreed == nil {
		return // reconnect has told
	}
	own, ok := agreed.Server(p.id)
	if !ok {
		return
	}
	p.moveClients(own.ClientAddr)
	if p.unwritten = !p.led; p.unwritten {
		return
	}
	static, why := p.config.MembershipFile()
	if static == "" {
		p.logger.Info("membership not written to a file", slog.String("because", why),
			slog.String("version", strconv.FormatInt(agreed.Version, 16)))
		return
	}
	name, err := conf.WriteDynamic(p.opts.Files, conf.Membership{
		Static: static, MyID: p.config.Ensemble.MyID, Version: agreed.Version,
		Lines: strings.Split(strings.TrimSuffix(agreed.Members(), "\n"), "\n"),
	})
	if p.unwritten = err != nil; p.unwritten {
		p.tellUnwritten(err)
		return
	}
	p.againIn = 0
	p.logger.Info("configuration file updated", slog.String("path", name))
}

// tellUnwritten says that the files cannot follow: when that begins, and again while it lasts.
func (p *Peers) tellUnwritten(err error) {
	now := p.opts.Clock.Now()
	if p.againIn > 0 && now.Sub(p.toldAt) < p.againIn {
		return
	}
	p.toldAt, p.againIn = now, warning.NextAgain(p.againIn)
	p.logger.Error("failed to update the configuration file", slog.Any("err", err))
}
