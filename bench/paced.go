package bench

import (
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// pacedBacklog is how many requests may wait for their replies on one connection. A server that is further behind has
// lost the race: what is due then is counted as an error, and not sent.
const pacedBacklog = 1 << 16

// notSent is the error under which requests count that were due while pacedBacklog others waited.
const notSent = "notSent"

// paced runs evenly paced requests.
func (r *run) paced() ([]Result, error) {
	if err := r.makeNodes(r.o.Clients); err != nil {
		return nil, err
	}
	result, err := r.pace(r.o.String(), r.mixed)
	return []Result{result}, err
}

// pace sends requests at even intervals, over all connections in turn, whatever the server does. A request counts if
// it was due in the interval that counts, and its latency is from then on: a server that stands still for a second
// has a second of late replies, not one.
func (r *run) pace(name string, generatorOf func(int) generator) (Result, error) {
	conns, err := r.dial(r.o.Clients)
	if err != nil {
		return Result{Name: name}, err
	}
	defer r.closeAll(conns)
	p, err := r.newPacer(conns, generatorOf)
	if err != nil {
		return Result{Name: name}, err
	}
	return r.conclude(name, p.rec, conns, p.start())
}

// newPacer returns a paced load on conns that has not begun.
func (r *run) newPacer(conns []*client.Conn, generatorOf func(int) generator) (*pacer, error) {
	p := &pacer{run: r, rec: newRecorder(), lines: make([]pacedLine, len(conns))}
	for i, conn := range conns {
		if err := conn.SetDeadline(r.o.bound()); err != nil {
			return nil, err
		}
		p.lines[i] = pacedLine{conn: conn, next: generatorOf(i), due: make(chan int64, pacedBacklog)}
	}
	return p, nil
}

// start begins the load and returns what tells that it is over, once its recorder is stopping.
func (p *pacer) start() <-chan error {
	done := make(chan error, 1) // the one result of parallel
	go func() {
		done <- parallel(len(p.lines)+1, len(p.lines)+1, func(i int) error {
			if i == len(p.lines) {
				p.send()
			} else {
				p.receive(i)
			}
			return nil
		})
	}()
	return done
}

// pacer is one paced load. Its send runs on one goroutine, receive on one for each connection.
type pacer struct {
	run   *run
	rec   *recorder
	lines []pacedLine
}

// pacedLine is one connection. due has the times at which the requests on their way were due, 0 for those that do
// not count; it is full when the server is pacedBacklog requests behind.
type pacedLine struct {
	conn *client.Conn
	next generator
	due  chan int64
}

func (p *pacer) send() {
	defer func() {
		for i := range p.lines {
			close(p.lines[i].due)
		}
	}()
	xids := make([]jute.Xid, len(p.lines))
	broken := make([]bool, len(p.lines))
	interval := int64(time.Second) / int64(p.run.o.Rate)
	var out []byte
	due := nanos()
	for n := 0; !p.rec.stopping.Load(); n++ {
		if wait := due - nanos(); wait > 0 {
			if pause(p.run.ctx, time.Duration(wait)) != nil {
				return
			}
		}
		i := n % len(p.lines)
		line := &p.lines[i]
		counted := int64(0)
		if p.rec.counting.Load() {
			counted = due
		}
		due += interval
		if broken[i] || !offer(line.due, counted) {
			p.lost(i, counted, notSent)
			continue
		}
		xids[i]++
		out = line.next(out[:0], xids[i])
		broken[i] = line.conn.Write(out) != nil // its receiver counts what was on the way
	}
}

func offer(due chan<- int64, at int64) bool {
	select {
	case due <- at:
		return true
	default:
		return false
	}
}

func (p *pacer) lost(i int, counted int64, name string) {
	if counted != 0 {
		p.rec.fail(i, name, 1)
	}
}

func (p *pacer) receive(i int) {
	line := &p.lines[i]
	var err error
	var header jute.ReplyHeader
	for due := range line.due {
		if err == nil {
			header, _, err = line.conn.ReadReply()
		}
		switch {
		case err != nil:
			p.lost(i, due, jute.ConnectionLoss.String())
		case due != 0:
			p.rec.add(i, []reply{{took: nanos() - int64(line.conn.Lag()) - due, code: header.Err}})
		default:
			p.rec.warmed.Add(1)
		}
	}
}
