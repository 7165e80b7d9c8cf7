package faults

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"zkd/jute"
)

// Bounds of a batch.
const (
	pipedZnodes = 3 // of each client
	pipedMost   = 24
	pipedCut    = 10 // in how many of a hundred batches the client cuts the connection itself
)

// pipelines are clients that have many requests under way at once, reads among writes, each on znodes of its own.
type pipelines struct {
	part
	mu      sync.Mutex
	batches []Batch // guarded by mu
}

// Batch is some requests that one client had under way together.
type Batch struct {
	Client   int
	Requests []Piped
	// After is what the client's znodes held, by sync and reads on the next connection; nil: it was not looked.
	After []Cell
}

// Piped is one request of a pipeline. The client writes each number once.
type Piped struct {
	Znodes   []int // that it writes, two in a multi; or the one that it reads
	Number   int   // that it writes; 0: it is a read
	Answered bool
	Code     jute.Code
	Cells    []Cell // of the znodes: as the answer says that a read has found them, or a write has left them
}

// Cell is what a znode holds.
type Cell struct {
	Number  int
	Version jute.Version
}

func (p *pipelines) path(client, znode int) string {
	return fmt.Sprintf("%s/c%d-%d", p.root, client, znode)
}

// Plant implements Role.
func (p *pipelines) Plant(s *Session) error {
	if err := s.Plant(p.root, ""); err != nil {
		return err
	}
	for client := range p.Clients {
		for znode := range pipedZnodes {
			if err := s.Plant(p.path(client, znode), "0"); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run implements Role.
func (p *pipelines) Run(id int, pace time.Duration, o SessionOptions) {
	numbers := 0
	var doubt *Batch // of which it is not known how far it has come
	settle := func(s *Session) {
		if doubt == nil {
			return
		}
		if doubt.After = p.look(s, id); doubt.After != nil {
			p.add(*doubt)
			doubt = nil
		}
	}
	(&shift{part: &p.part, id: id, pace: 3 * pace, o: o, connected: settle, step: func(s *Session) {
		b := Batch{Client: id}
		for range 1 + o.Rand.IntN(pipedMost) {
			r := Piped{Znodes: []int{o.Rand.IntN(pipedZnodes)}}
			if o.Rand.IntN(3) > 0 {
				numbers++
				r.Number = numbers
				if o.Rand.IntN(4) == 0 {
					r.Znodes = append(r.Znodes, (r.Znodes[0]+1)%pipedZnodes)
				}
			}
			b.Requests = append(b.Requests, r)
		}
		if p.send(s, &b) {
			p.add(b)
		} else {
			doubt = &b
		}
	}}).run()
	if doubt != nil {
		p.add(*doubt)
	}
}

// add notes a batch.
func (p *pipelines) add(b Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batches = append(p.batches, b)
}

// send sends a batch and notes the answers. It reports whether all have come.
func (p *pipelines) send(s *Session, b *Batch) bool {
	requests, cut := make([]Request, len(b.Requests)), -1
	for i := range b.Requests {
		requests[i] = p.request(b.Client, &b.Requests[i])
	}
	if s.o.Rand.IntN(100) < pipedCut {
		cut = s.o.Rand.IntN(len(b.Requests))
	}
	err := s.Pipe(requests, func(i int, reply Reply) bool {
		r := &b.Requests[i]
		r.Answered, r.Code = true, reply.Err
		if reply.Err == jute.OK {
			if err := r.read(reply); err != nil {
				p.violated("%v", err)
			}
		}
		p.did(map[bool]Outcome{true: Done, false: Refused}[reply.Err == jute.OK])
		return i != cut
	})
	for i := range b.Requests {
		if !b.Requests[i].Answered {
			p.did(Unknown)
		}
	}
	return err == nil
}

// request is how a request is sent.
func (p *pipelines) request(client int, r *Piped) Request {
	set := func(znode int) *jute.SetDataRequest {
		return &jute.SetDataRequest{Path: p.path(client, znode), Data: []byte(strconv.Itoa(r.Number)),
			Version: jute.AnyVersion}
	}
	switch {
	case r.Number == 0:
		return Request{jute.OpGetData, (&jute.PathWatchRequest{Path: p.path(client, r.Znodes[0])}).Append}
	case len(r.Znodes) == 1:
		return Request{jute.OpSetData, set(r.Znodes[0]).Append}
	}
	return Request{jute.OpMulti, func(b []byte) []byte {
		for _, znode := range r.Znodes {
			header := jute.MultiHeader{Type: jute.OpSetData, Err: -1}
			b = set(znode).Append(header.Append(b))
		}
		return jute.AppendMultiEnd(b)
	}}
}

// read reads the answer to a request that was done.
func (r *Piped) read(reply Reply) error {
	if r.Number == 0 {
		cell, err := cellOf(reply)
		r.Cells = []Cell{cell}
		return err
	}
	d := jute.NewDecoder(reply.Body)
	for range r.Znodes {
		var response jute.StatResponse
		if len(r.Znodes) > 1 {
			var header jute.MultiHeader
			header.Decode(&d)
			if header.Type != jute.OpSetData {
				return fmt.Errorf("a multi that was done has a part of type %v, code %v", header.Type, header.Err)
			}
		}
		response.Decode(&d)
		r.Cells = append(r.Cells, Cell{r.Number, response.Stat.Version})
	}
	return d.Err()
}

// cellOf reads the answer to getData.
func cellOf(reply Reply) (cell Cell, err error) {
	var response jute.GetDataResponse
	if err := decode(reply.Body, response.Decode); err != nil {
		return cell, err
	}
	cell.Number, err = strconv.Atoi(string(response.Data))
	cell.Version = response.Stat.Version
	return cell, err
}

// look reads all znodes of a client after a sync; nil if the connection is lost.
func (p *pipelines) look(s *Session, client int) (cells []Cell) {
	if reply, err := s.Sync(p.root); err != nil || reply.Err != jute.OK {
		s.Drop()
		return nil
	}
	for znode := range pipedZnodes {
		reply, data, stat, err := s.GetData(p.path(client, znode), false)
		if err != nil || reply.Err != jute.OK {
			s.Drop()
			return nil
		}
		number, err := strconv.Atoi(data)
		if err != nil {
			p.violated("client %d: %s holds %q", client, p.path(client, znode), data)
		}
		cells = append(cells, Cell{number, stat.Version})
	}
	return cells
}

// Check implements Role.
func (p *pipelines) Check(trees []Tree) {
	all := p.batches
	for client := range p.Clients {
		for _, tree := range trees {
			end := Batch{Client: client}
			for znode := range pipedZnodes {
				node := tree[p.path(client, znode)]
				number, _ := strconv.Atoi(node.Data) // another is not what was written
				end.After = append(end.After, Cell{number, node.Stat.Version})
			}
			all = append(all, end)
		}
	}
	CheckPipelines(all, p.violated)
}

// CheckPipelines holds batches, those of each client in the order in which it has sent them, against what a pipeline
// is: the answers are those to the first requests of a batch; each write takes effect at most once, after those before
// it; a read sees all writes before it; and of the writes without an answer the first ones have taken effect, without
// a gap. Where servers declined writes for want of room there may be gaps.
func CheckPipelines(batches []Batch, violated func(string, ...any)) {
	declined := false
	for _, b := range batches {
		for _, r := range b.Requests {
			declined = declined || r.Answered && r.Code == jute.SystemError
		}
	}
	ends := map[int][]ending{}
	for n := range batches {
		b := &batches[n]
		if _, ok := ends[b.Client]; !ok {
			ends[b.Client] = []ending{{}}
		}
		ends[b.Client] = b.check(ends[b.Client], declined, violated)
	}
}

// ending is what a client's znodes may hold.
type ending [pipedZnodes]Cell

// after is what they hold after a write.
func (e ending) after(r *Piped) ending {
	for _, z := range r.Znodes {
		e[z] = Cell{r.Number, e[z].Version + 1}
	}
	return e
}

// check returns what the znodes may hold after a batch, if they may have held that before it.
func (b *Batch) check(may []ending, declined bool, violated func(string, ...any)) []ending {
	if len(b.Requests) > 0 {
		if len(may) > 1 {
			violated("client %d: it went on without a look how far it had come", b.Client)
		}
		may = b.play(may[0], violated)
	}
	if b.After == nil || slices.Contains(may, ending(b.After)) {
		if b.After != nil {
			may = []ending{ending(b.After)}
		}
		return may
	}
	if !declined {
		violated("client %d: its znodes hold %+v; by what it has asked, in order, they can hold %+v",
			b.Client, b.After, may)
	}
	return []ending{ending(b.After)}
}

// play returns what the znodes may hold after the requests of a batch.
func (b *Batch) play(now ending, violated func(string, ...any)) []ending {
	n := 0
	for ; n < len(b.Requests) && b.Requests[n].Answered; n++ {
		r := &b.Requests[n]
		if r.Code != jute.OK {
			if r.Code != jute.SystemError && r.Code != jute.SessionExpired {
				violated("client %d: request %+v was refused", b.Client, *r)
			}
			continue
		}
		if r.Number != 0 {
			now = now.after(r)
		}
		for i, z := range r.Znodes {
			if r.Cells[i] != now[z] {
				violated("client %d: znode %d is %+v, an answer says otherwise: %+v of %+v",
					b.Client, z, now[z], *r, *b)
				now[z] = r.Cells[i]
			}
		}
	}
	may := []ending{now}
	for i := n; i < len(b.Requests); i++ {
		r := &b.Requests[i]
		if r.Answered {
			violated("client %d: an answer to %+v, and none to one before it", b.Client, *r)
		}
		if r.Number != 0 {
			now = now.after(r)
			may = append(may, now)
		}
	}
	return may
}
