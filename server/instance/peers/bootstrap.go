package peers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"zkd/quorum"
	"zkd/quorum/transport"
	"zkd/storage/serverid"
)

// Times of a first start. answerIn is a guess: who runs already answers within a round trip. A server with data that
// waits for others to found asks them again after askAgain, and says each tellWaiting that it waits.
const (
	answerIn    = time.Second
	askAgain    = 100 * time.Millisecond
	tellWaiting = time.Minute
)

// openBootstrap looks for which bootstrap of an ensemble this server is.
func (p *Peers) openBootstrap(o *quorum.Options) (err error) {
	none := [16]byte{}
	founded := p.machine.ClusterID() != none
	if p.bootstrap, err = quorum.OpenBootstrapChoice(o.Log, founded); err != nil {
		return err
	}
	o.BootstrapChoice = p.bootstrap
	if p.bootstrap.GaveWay() {
		p.logger.Warn("another server has imported data, as this one has heard before: founds nothing, and waits " +
			"until it is let in")
	}
	if quorum.Imported(o.Log) && !founded {
		p.data, err = quorum.DataCluster(o.Log, p.opts.Random)
	}
	return err
}

// cluster is the id of the cluster that this server belongs to, or is about to found with the data that it has.
func (p *Peers) cluster() [16]byte {
	if id := p.machine.ClusterID(); id != [16]byte{} {
		return id
	}
	return p.data
}

// standing is what this server has to do with an ensemble that is not founded yet.
func (p *Peers) standing() transport.Standing {
	switch none := ([16]byte{}); {
	case p.machine.ClusterID() != none:
		return transport.Idle
	case p.data != none:
		return transport.WithData
	case p.bootstrap.GaveWay():
		return transport.GaveWay
	case p.bootstrap.Begun():
		return transport.Bootstrapping
	}
	return transport.Idle
}

// twoBootstraps says why two servers have no stream.
const twoBootstraps = "server %d takes part in the founding of an ensemble without data, and server %d belongs to " +
	"one that is founded on imported data"

// bootstrapConflict returns what speaks against a connection with a server that bootstraps an ensemble in the other way
// than this one, with data or without. A server that has nothing, and takes part in nothing yet, gives way to data.
func (p *Peers) bootstrapConflict(id uint64, cluster [16]byte, standing transport.Standing) string {
	none := [16]byte{}
	own := p.cluster()
	withData := quorum.OnData(own) || own == none && p.bootstrap.GaveWay()
	switch {
	case withData && standing == transport.Bootstrapping:
		return fmt.Sprintf(twoBootstraps, serverid.Number(id), serverid.Number(p.id))
	case own != none:
		return ""
	case quorum.OnData(cluster):
		first, ok, err := p.bootstrap.GiveWay(id)
		if err != nil {
			return fmt.Sprintf("server %d: %v", serverid.Number(p.id), err)
		}
		if first { // it is durable: from here on it holds for every start
			p.logger.Info("another server has imported data, or belongs to those that have it: this one founds "+
				"nothing, and waits until it is let in", slog.Int64("peer", serverid.Number(id)))
		}
		if ok {
			return ""
		}
	case standing == transport.GaveWay && p.bootstrap.Begun():
	case standing == transport.GaveWay || standing == transport.Unsaid && cluster == none:
		p.bootstrap.Note(id)
		return ""
	default:
		return ""
	}
	return fmt.Sprintf(twoBootstraps, serverid.Number(p.id), serverid.Number(id))
}

// runsAlready tells whether one of the others belongs to an ensemble that was founded, and none has met this server as
// a member: then this one, which has no data, bootstraps nothing. It waits until it gets the state. One that was met
// has lost its data: the node knows what to do. So it does if another one is about to found with data.
func (p *Peers) runsAlready(ctx context.Context) bool {
	runs := uint64(0)
	for id, a := range p.ask(ctx) { // order: any that runs
		if a.Known {
			return false
		}
		if a.Cluster != [16]byte{} && a.Standing != transport.WithData {
			runs = id
		}
	}
	if runs == 0 {
		return false
	}
	p.logger.Info("an ensemble runs already: this server waits until it gets the state from there; if it is not a "+
		"member yet, add it by reconfig", slog.Int64("peer", serverid.Number(runs)))
	return true
}

// mayFound has the others that have no data give way to the data of this server, and waits as long as one of them takes
// part in the bootstrap of an ensemble without it. It refuses to found an ensemble beside one that runs, or beside
// another server with data. ask returns what the others answer.
func (p *Peers) mayFound(ctx context.Context, ask func(context.Context) map[uint64]transport.Probed) error {
	waits := map[uint64]bool{}
	again := p.opts.Clock.NewTicker(askAgain)
	defer again.Stop()
	var told time.Time
	for {
		answers := ask(ctx)
		for _, id := range slices.Sorted(maps.Keys(answers)) {
			if err := p.mayFoundBeside(id, answers[id]); err != nil {
				return err
			}
			// One that has taken part and is not heard now may be back at any time.
			waits[id] = answers[id].Standing == transport.Bootstrapping
		}
		maps.DeleteFunc(waits, func(_ uint64, bootstraps bool) bool { return !bootstraps })
		if len(waits) == 0 {
			return nil
		}
		if now := p.opts.Clock.Now(); told.IsZero() || now.Sub(told) >= tellWaiting {
			told = now
			p.logger.Warn("data was imported into this server, and others are about to found an ensemble without it: "+
				"waits for what becomes of that; stop them, empty their dataDir, and start them again",
				slog.Any("peers", serverid.Numbers(slices.Sorted(maps.Keys(waits)))))
		}
		select {
		case <-again.C():
		case <-ctx.Done():
			return fmt.Errorf("wait for the servers %v, which are about to found an ensemble without the data that "+
				"was imported into this one: %w", serverid.Numbers(slices.Sorted(maps.Keys(waits))), context.Cause(ctx))
		}
	}
}

// mayFoundBeside tells what speaks against bootstrapping an ensemble on the data of this server, by what another one
// answers.
func (p *Peers) mayFoundBeside(id uint64, a transport.Probed) error {
	switch {
	case a.Standing == transport.WithData:
		return fmt.Errorf("data was imported into this server, and into server %d, too: keep it on the one of them "+
			"whose data is the newest (zkd inspect summary shows the zxid), and empty the dataDir of the other",
			serverid.Number(id))
	case a.Known || a.Cluster != [16]byte{} && a.Cluster != p.data:
		return fmt.Errorf("data was imported into this server, and server %d belongs to an ensemble already, with "+
			"data of its own: stop the other servers, empty their dataDir, and start them after this one",
			serverid.Number(id))
	}
	return nil
}

// ask asks the others whether they belong to an ensemble, and returns what they have answered.
func (p *Peers) ask(ctx context.Context) map[uint64]transport.Probed {
	p.reconnect()
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	answers := map[uint64]transport.Probed{}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for i := range p.configured.Servers {
		id := p.configured.Servers[i].ID
		if id == p.id {
			continue
		}
		asked.Go(func() {
			answer, err := p.streams.ProbeCluster(ctx, id)
			if err != nil {
				p.logger.Debug("peer status unknown", slog.Int64("peer", serverid.Number(id)), slog.Any("err", err))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[id] = answer
		})
	}
	asked.Wait()
	return answers
}
