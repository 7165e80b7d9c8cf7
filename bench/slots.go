package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zkd/bench/process"
	"zkd/jute/client"
)

// slotsMax bounds the slots of a measurement.
const slotsMax = 10_000

// player is a load on one side of a comparison in slots.
type player struct {
	*run
	stop    func() // of the server
	workers []*worker
	rec     *recorder
	began   process.Usage
	took    time.Duration // of its slots, until the last reply of each
	own     time.Duration // processor time of this process in them
}

// compareInSlots runs a load on a fresh server of each side. Both servers are there all the time, and the load goes to
// one of them for a slot while the other one has nothing to do, in the order A B B A …, A being the side first. So what
// the machine does besides falls on both, even if it changes from one second to the next.
func compareInSlots(ctx context.Context, sides [2]Side, first int, o Options, slots int) ([2][]Result, error) {
	var (
		results [2][]Result
		players [2]*player
	)
	defer func() {
		for _, p := range players {
			if p != nil {
				p.end()
			}
		}
	}()
	order := [2]int{first, 1 - first}
	for _, s := range order {
		p, err := newPlayer(ctx, sides[s], o)
		if err != nil {
			return results, fmt.Errorf("on %s: %w", sides[s].Name, err)
		}
		players[s] = p
	}
	slot := max(o.Duration/time.Duration(slots), 1)
	for n := range slots {
		for i := range order {
			p := players[order[i^n&1]]
			if err := p.play(slot); err != nil {
				return results, err
			}
		}
	}
	for s, p := range players {
		result, err := p.result()
		if err != nil {
			return results, fmt.Errorf("on %s: %w", sides[s].Name, err)
		}
		results[s] = []Result{result}
	}
	return results, nil
}

// newPlayer starts a server of a side and runs the load's warm-up on it.
func newPlayer(ctx context.Context, side Side, o Options) (*player, error) {
	target, stop, err := side.Start(ctx)
	if err != nil {
		return nil, err
	}
	p := &player{stop: stop, rec: newRecorder()}
	if err = p.begin(ctx, target, o); err == nil {
		err = p.warmUp()
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// begin makes what the load needs.
func (p *player) begin(ctx context.Context, target Target, o Options) (err error) {
	if p.run, err = newRun(ctx, target, o); err != nil {
		return err
	}
	if err = p.makeNodes(o.Clients); err != nil {
		return err
	}
	conns, err := p.dial(o.Clients)
	if err != nil {
		return err
	}
	for i, conn := range conns {
		p.workers = append(p.workers, &worker{index: i, conn: conn, next: p.generator(i), rec: p.rec})
	}
	return nil
}

// warmUp runs the load until it counts, and reads what the server has used until then.
func (p *player) warmUp() error {
	err := p.during(func() error { return p.warm(p.rec) })
	if err != nil {
		return err
	}
	p.rec.counting.Store(true)
	p.began, err = p.usage()
	return err
}

// during keeps requests outstanding until wait returns. No reply is missing when it returns.
func (p *player) during(wait func() error) error {
	p.rec.stopping.Store(false)
	done := p.work(p.workers)
	err := wait()
	p.rec.stopping.Store(true)
	if err != nil {
		cutAll(p.conns())
	}
	return errors.Join(err, <-done)
}

// play runs the load for a slot.
func (p *player) play(slot time.Duration) error {
	own, began := process.Own(), nanos()
	err := p.during(func() error { return pause(p.ctx, slot) })
	p.took += time.Duration(nanos() - began)
	p.own += process.Own() - own
	return err
}

// result is what the slots have shown together. What was written to the disk is not known: the other server's writes
// would count, too.
func (p *player) result() (Result, error) {
	after, err := p.usage()
	if err != nil {
		return Result{}, err
	}
	result := Result{Name: p.o.String(), Seconds: p.took.Seconds(), RSSBytes: after.RSSBytes,
		LoadProcessors: float64(p.own) / float64(max(p.took, 1))}
	p.rec.fill(&result)
	perRequest(&result, after.CPU-p.began.CPU, 0)
	if result.Requests == 0 {
		return result, fmt.Errorf("no request was answered in %v: %v", p.took, result.Errors)
	}
	return result, nil
}

// conns are the connections of the load.
func (p *player) conns() []*client.Conn {
	conns := make([]*client.Conn, len(p.workers))
	for i, w := range p.workers {
		conns[i] = w.conn
	}
	return conns
}

// end ends the load and its server. What the load has made goes with it.
func (p *player) end() {
	if p.run != nil {
		p.closeAll(p.conns())
		p.admin.Close()
	}
	p.stop()
}

// checkSlots returns what keeps the cases from being run in slots.
func (o *CompareOptions) checkSlots() error {
	if o.Slots == 0 {
		return nil
	}
	var errs []error
	if o.Slots < 0 || o.Slots > slotsMax {
		errs = append(errs, fmt.Errorf("slots is %d: it must be 1 to %d", o.Slots, slotsMax))
	}
	if o.Limit.Start != nil {
		errs = append(errs, errors.New("a server without a state cannot be compared in slots"))
	}
	for i := range o.Cases {
		load, err := LoadNamed(o.Cases[i].Load)
		if err == nil && load.run != nil {
			err = fmt.Errorf("%s cannot be run in slots", load.Name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
