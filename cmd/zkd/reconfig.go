package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/quorum/transport"
	"zkd/storage/ensemble"
)

// Times about members that come and go. Guesses: a server that wants to be let in calls every three seconds at most;
// one that was removed should hear of it before its connections are closed; who runs already answers within a round
// trip.
const (
	askingFor   = 10 * time.Second
	lingerFor   = 5 * time.Second
	followEvery = time.Second
	answerIn    = time.Second
)

// asking is which servers that are no members have called of late.
type asking struct {
	mu   sync.Mutex
	last map[uint64]time.Time // guarded by mu; at most askingMax
}

// askingMax bounds how many servers are remembered: anybody may claim any id.
const askingMax = 256

// note takes note of a call.
func (a *asking) note(id uint64) {
	now := clock.Real().Now()
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
func (a *asking) lately(id uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.last[id]
	return ok && clock.Real().Since(at) <= askingFor
}

// placed is a server that streams go to.
type placed struct {
	addresses []string
	gone      time.Time // since when it is in no configuration; zero: it is in one
}

// runsAlready tells whether one of the others belongs to an ensemble that was founded, and none has met this server as
// a member: then this one, which has no data, founds nothing. It waits until it gets the state. One that was met has
// lost its data: the node knows what to do.
func (p *peers) runsAlready(ctx context.Context) bool {
	runs, met := p.ask(ctx, answerIn)
	if len(runs) == 0 || len(met) > 0 {
		return false
	}
	p.logger.Info("an ensemble runs already: this server waits until it gets the state from there; if it is not a "+
		"member yet, add it by reconfig", slog.Uint64("peer", <-runs))
	return true
}

// importAnswerIn is how long the others may take to answer a server with imported data: less than they wait for an
// answer before they found an ensemble without data.
const importAnswerIn = answerIn / 4

// mayFound refuses to found an ensemble on imported data beside one that runs.
func (p *peers) mayFound(ctx context.Context) error {
	runs, met := p.ask(ctx, importAnswerIn)
	for _, found := range []<-chan uint64{runs, met} {
		if len(found) > 0 {
			return fmt.Errorf("data was imported into this server, and server %d belongs to an ensemble "+
				"already, with data "+
				"of its own: stop the other servers, empty their dataDir, and start them after this one", <-found)
		}
	}
	return nil
}

// ask asks the others whether they belong to an ensemble, and returns the ids of those that do, and of those that have
// met this server as a member of it.
func (p *peers) ask(ctx context.Context, within time.Duration) (runs, met chan uint64) {
	p.reconnect()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	runs, met = make(chan uint64, len(p.founding.Servers)), make(chan uint64, len(p.founding.Servers))
	var asked sync.WaitGroup
	for i := range p.founding.Servers {
		id := p.founding.Servers[i].ID
		if id == uint64(p.config.Ensemble.MyID) {
			continue
		}
		asked.Go(func() {
			cluster, known, err := p.streams.AskCluster(ctx, id)
			switch {
			case err != nil:
				p.logger.Debug("a server does not say whether it runs", slog.Uint64("peer", id), slog.Any("err", err))
			case known:
				met <- id
			case cluster != [16]byte{}:
				runs <- id
			}
		})
	}
	asked.Wait()
	return runs, met
}

// follow brings the streams, and the files of the configuration, in step with the members that the state has.
func (p *peers) follow() {
	ticker := clock.Real().NewTicker(followEvery)
	defer ticker.Stop()
	reloading := clock.Real().NewTicker(reloadInterval)
	defer reloading.Stop()
	for {
		select {
		case <-p.changed:
			p.reconnect()
			p.writeFiles()
		case <-ticker.C(): // those that have left may have been told by now
			p.reconnect()
		case <-reloading.C():
			p.stores.look()
		case <-p.halt:
			return
		}
	}
}

// membersChanged says that the state may have other members. It does not block.
func (p *peers) membersChanged() {
	select {
	case p.changed <- struct{}{}:
	default: // it has a token already
	}
}

// reconnect has the streams go to the members of the state, or as long as it has none, of the configuration. One that
// is not in it any more is kept for a while, to be told, and as long as it takes part.
func (p *peers) reconnect() {
	present, err := p.agreed()
	if err != nil {
		p.logger.Error("the members in the state cannot be read: run a newer zkd", slog.Any("err", err))
		return
	}
	if present == nil {
		present = &p.founding
	} else if !p.config.Tree.Reconfig { // then new addresses come by zoo.cfg
		present = p.withConfigured(present)
	}
	p.place(present)
	where := make(map[uint64]transport.Peer, len(p.known))
	for id, s := range p.known { // order: each for itself
		where[id] = transport.Peer{Addresses: s.addresses}
	}
	p.streams.SetPeers(where)
}

// withConfigured returns the members with the addresses of zoo.cfg, where they are in it.
func (p *peers) withConfigured(agreed *ensemble.Config) *ensemble.Config {
	c := ensemble.Config{Servers: slices.Clone(p.founding.Servers)}
	for i := range agreed.Servers {
		if _, ok := c.Server(agreed.Servers[i].ID); !ok {
			c.Servers = append(c.Servers, agreed.Servers[i])
		}
	}
	return &c
}

// place brings p.known in step with c.
func (p *peers) place(c *ensemble.Config) {
	if p.known == nil {
		p.known = map[uint64]*placed{}
	}
	now := clock.Real().Now()
	var group []uint64
	if p.node != nil {
		s := p.node.Status()
		group = slices.Concat(s.Voters, s.Learners)
	}
	maps.DeleteFunc(p.known, func(id uint64, s *placed) bool {
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
		p.known[c.Servers[i].ID] = &placed{addresses: peerAddresses(&c.Servers[i])}
	}
}

// moveClients has the port for clients follow the configuration.
func (p *peers) moveClients(addr string) {
	if addr == "" || addr == p.client || !p.config.Tree.Reconfig {
		return
	}
	p.client = addr
	select {
	case <-p.moves: // not seen yet, and past
	default:
	}
	p.moves <- addr // nobody else writes
}

// writeFiles has the dynamic configuration file follow the members, as ZooKeeper does with reconfigEnabled. A server
// that does not belong to them any more keeps its files.
func (p *peers) writeFiles() {
	agreed, err := p.agreed()
	if err != nil || agreed == nil {
		return // reconnect has told
	}
	p.compare(agreed)
	own, ok := agreed.Server(uint64(p.config.Ensemble.MyID))
	if !ok {
		return
	}
	p.moveClients(own.ClientAddr)
	static, why := p.config.MembershipFile()
	if static == "" {
		p.logger.Info("no configuration file follows the members of the ensemble", slog.String("because", why),
			slog.String("version", strconv.FormatInt(agreed.Version, 16)))
		return
	}
	name, err := conf.WriteDynamic(conf.DiskFiles{}, conf.Membership{
		Static: static, MyID: p.config.Ensemble.MyID, Version: agreed.Version,
		Lines: strings.Split(strings.TrimSuffix(agreed.Members(), "\n"), "\n"),
	})
	if err != nil {
		p.logger.Error("the configuration files do not follow the members of the ensemble, which are as agreed: "+
			"correct what is wrong with the files and start this server again", slog.Any("err", err))
		return
	}
	p.logger.Info("the configuration follows the members of the ensemble", slog.String("path", name))
}
