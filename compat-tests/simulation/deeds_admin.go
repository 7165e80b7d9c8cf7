package simulation

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"zkd/compat-tests/faults"
	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/server/sim"
)

// The kinds of what an operator asks the admin servers for.
const (
	AdminCommand Kind = "admin command" // one that changes something on its server
	TakeSnapshot Kind = "take snapshot" // by the admin command; what comes is kept
	BadRestore   Kind = "bad restore"   // of a part of the last one, or of one with another bit: nothing may change
	Restore      Kind = "restore"       // of one that was just taken, when all else is over
)

// adminKinds are those that are drawn, in proportion.
var adminKinds = []Kind{AdminCommand, AdminCommand, TakeSnapshot, BadRestore, BadRestore}

// adminSettings are the lines of each zoo.cfg of a plan with such deeds.
var adminSettings = []string{"admin.enableServer=true", "admin.rateLimiterIntervalInMS=0", superSetting}

// adminCommands are those that change something.
var adminCommands = []string{"stat_reset", "connection_stat_reset", "observer_connection_stat_reset",
	"set_trace_mask?traceMask=2"}

// How many plans of a hundred have such deeds, and what there is in those.
const (
	adminPercent = 15
	adminGap     = 4 * time.Second
	adminPort    = 8080
	adminWithin  = 20 * time.Second // of one answer
)

// drawAdmin draws what the admin servers are asked for, from numbers of their own.
func drawAdmin(p *Plan) {
	r := drawer{rand.New(rand.NewPCG(p.Seed, 0x61646d69))} //nolint:gosec // a run must repeat
	if !r.chance(adminPercent) {
		return
	}
	all := p.Participants + p.Observers
	for at := r.upTo(adminGap); at < p.Length; at += r.upTo(2 * adminGap) {
		p.Admin = append(p.Admin, Deed{At: at, What: one(r, adminKinds...), Whom: r.IntN(all), Much: r.IntN(1000)})
	}
	p.Admin = append(p.Admin, Deed{At: p.Length, What: Restore, Whom: r.IntN(all), Other: r.IntN(all),
		For: r.upTo(time.Second), Much: r.IntN(1000)})
}

// asker asks the admin servers, on a goroutine of his own.
type asker struct {
	g    *play
	last []byte // snapshot
}

// run does all deeds but the restore at the end.
func (a *asker) run() {
	began := time.Now()
	for i := range a.g.plan.Admin {
		d := &a.g.plan.Admin[i]
		select {
		case <-time.After(time.Until(began.Add(d.At))):
		case <-a.g.stop:
			return
		}
		if d.What != Restore {
			a.do(d)
		}
	}
}

// do does one deed. Whoever is asked may be down.
func (a *asker) do(d *Deed) {
	g := a.g
	g.w.Story.Tell("", "-- the admin server of s%d is asked: %s, %d of 1000", g.w.Servers[d.Whom].Number,
		d.What, d.Much)
	switch d.What {
	case AdminCommand:
		_, _ = a.ask(d.Whom, adminCommands[d.Much%len(adminCommands)], nil, 0) // whether it is done nobody needs
	case TakeSnapshot:
		a.take(d.Whom)
	case BadRestore:
		if a.last == nil && !a.take(d.Whom) {
			return
		}
		content, length := bytes.Clone(a.last), len(a.last)
		if at := length * d.Much / 1000; d.Much%2 == 0 {
			content = content[:at] // and the connection ends
		} else {
			content[at] ^= 1 << (d.Much % 8)
		}
		if a.post(d.Whom, content, length) {
			g.violated("server %d has restored what is no snapshot", d.Whom+1)
		}
	}
}

// adminReply is what an admin server has answered.
type adminReply struct {
	status int
	kind   string
	body   []byte
}

// snapshotKind is the type of what a snapshot is sent as.
const snapshotKind = "application/octet-stream"

// take takes a snapshot.
func (a *asker) take(i int) bool {
	reply, err := a.ask(i, "snapshot", nil, 0)
	if err != nil || reply.status != http.StatusOK || reply.kind != snapshotKind { // it does not serve, and says so
		return false
	}
	a.last = reply.body
	return true
}

// post has a server restore a snapshot, and reports whether it says that it has.
func (a *asker) post(i int, content []byte, length int) bool {
	reply, err := a.ask(i, "restore", content, length)
	return err == nil && reply.status == http.StatusOK && bytes.Contains(reply.body, []byte("last_zxid"))
}

// ask asks for a command. What is sent with it is as long as it says, or ends early.
func (a *asker) ask(i int, command string, content []byte, length int) (r adminReply, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), adminWithin)
	defer cancel()
	host := fmt.Sprintf("%v:%d", a.g.w.Servers[i].Host().Addr(), adminPort)
	method := http.MethodGet
	if content != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+host+"/commands/"+command, nil)
	if err != nil {
		return r, err
	}
	request.Close = true
	request.Header.Set("Authorization", "digest "+target.SuperUser+":"+target.SuperPassword)
	if content != nil {
		request.Header.Set("Content-Type", snapshotKind)
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(length)
	}
	c, err := a.g.machine.Dial(ctx, host, false)
	if err != nil {
		return r, err
	}
	defer c.Close() //nolint:errcheck // it was only read
	_ = c.SetDeadline(time.Now().Add(adminWithin))
	if err := request.Write(c); err != nil {
		return r, err
	}
	reply, err := http.ReadResponse(bufio.NewReader(c), request)
	if err != nil {
		return r, err
	}
	defer reply.Body.Close() //nolint:errcheck // likewise
	r = adminReply{status: reply.StatusCode, kind: reply.Header.Get("Content-Type")}
	r.body, err = io.ReadAll(reply.Body)
	return r, err
}

// restore goes back to a snapshot that it takes, when nobody else writes any more: what was written after it is gone,
// on all servers alike, and all else is there. In most plans a server ends meanwhile.
func (a *asker) restore(d *Deed) {
	g := a.g
	var before []faults.Tree
	var why string
	if !g.await(servesWithin, "all servers hold the same before a restore", func() bool {
		before, why = g.trees()
		return why == "" && len(before) > 0
	}) {
		g.violated("before the restore: %s", why)
		return
	}
	server := d.Whom // whoever is no member, or does not serve, has none
	another := func() int { server = (server + 1) % len(g.w.Servers); return server }
	if !g.await(servesWithin, "a snapshot is taken", func() bool { return a.take(another()) }) {
		return
	}
	s, err := faults.Open(g.options(1004, g.w.Addrs())) // a session that the snapshot has not
	if err == nil {
		_, err = s.Insist(func() (faults.Reply, error) {
			reply, _, err := s.Create(root+"/behind-the-snapshot", "", jute.ModePersistent)
			return reply, err
		})
	}
	if err != nil {
		g.violated("a write behind the snapshot: %v", err)
		return
	}
	g.w.Story.Tell("", "-- a restore: %v", d)
	g.after(d.For, func() { a.disturb(d, server) })
	var done chan bool
	if !g.await(2*servesWithin, "a restore is done", func() bool {
		if done == nil {
			done = make(chan bool, 1)
			go func(at int) {
				done <- a.post(at, a.last, len(a.last))
			}(another())
		}
		select {
		case ok := <-done:
			done = nil
			return ok
		default:
			return false
		}
	}) {
		return
	}
	g.sleepUntil(time.Now().Add(d.For + 2*againAfter)) // whoever is to end has, and is there again
	if !g.await(servesWithin, "all servers hold what was restored", func() bool {
		var after []faults.Tree
		if after, why = g.trees(); why == "" {
			why = strings.Join(faults.CompareTrees(before[0], after[0]), "\n")
		}
		return why == ""
	}) {
		g.violated("after the restore: %s", why)
	}
}

// disturb ends a server while a restore is under way: the one that leads, or the one that was asked; or all of them.
func (a *asker) disturb(d *Deed, asked int) {
	victims := []*sim.Server{a.g.w.Servers[a.g.leader()]}
	switch d.Much % 4 {
	case 0:
		return
	case 1:
		victims[0] = a.g.w.Servers[asked]
	case 2:
		victims = a.g.w.Servers
	}
	for _, s := range victims {
		if d.Much%8 < 4 {
			s.Kill()
		} else {
			s.PowerOff()
		}
		a.g.after(againAfter, s.Start)
	}
}
