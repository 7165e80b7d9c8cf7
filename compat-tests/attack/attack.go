package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// Attack is one way to harm others.
type Attack struct {
	Name   string
	Config func(tb testing.TB) (zooCfg map[string]string, jvmFlags []string) // besides the usual; nil: nothing
	// Servers is how many there are: 0 is one alone.
	Servers int
	// Prepare makes what the attack needs, before anything is measured; may be nil. An error fails the test.
	Prepare func(f *Field) error
	// Run attacks until it is through or Field.Over.
	Run func(f *Field) error
	// Check says what else zkd owes, when the attack is over; may be nil.
	Check func(f *Field) error
}

// attacks are the rows of the table.
var attacks = []Attack{
	events(setsFull), events(setsMore), manyEvents,
	identities(1), identities(writersMany), emptied, setWatches, lists, containers,
	quotas, unread, longWatches, unfinished, unfinishedTLS, strangers, flood, halfOpen, drips, oversized, digestLogins,
	kerberosLogins, ephemerals, multis, sequences, deep, adminCommands,
}

// Field is where an attack happens.
type Field struct {
	Addr   string   // of clients
	Peers  []string // the ports for servers, host:port of quorum and of election for each member; nil: one server alone
	Kind   target.Kind
	Config map[string]string // of the servers
	Scale  float64
	For    time.Duration // how long an attack that has no end of its own goes on

	tb      testing.TB
	ctx     context.Context // the test's
	servers []*target.Server
	until   time.Time // of Run

	answered atomic.Int64 // requests of attackers, by flood

	mu     sync.Mutex
	notes  []string
	cut    int
	open   []net.Conn // held until the end of Run
	leaked bool       // the state, to a stranger; owned by Run
	// lockedOut says that an owner could not write any more; owned by Run.
	lockedOut bool
}

// callWithin bounds one request of an attacker: a server may be hardly able to answer.
const callWithin = time.Minute

// N is a size of the attack: full in a whole one, scaled but at least least in a smaller one.
func (f *Field) N(full, least int) int { return max(least, int(float64(full)*f.Scale)) }

// Over reports whether the time of the attack is.
func (f *Field) Over() bool { return !time.Now().Before(f.until) || f.ctx.Err() != nil }

// Await waits until a part of the time of the attack is over.
func (f *Field) Await(part float64) {
	wait := time.NewTimer(time.Duration(part * float64(time.Until(f.until))))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-f.ctx.Done():
	}
}

// Note says something for the table. What was noted already is not said again.
func (f *Field) Note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(f.notes, text) {
		f.notes = append(f.notes, text)
	}
}

// Cut counts an attacker whom the server has cut off, or refused.
func (f *Field) Cut() {
	f.mu.Lock()
	f.cut++
	f.mu.Unlock()
}

// said are the notes, with the requests that were answered and those who were cut off.
func (f *Field) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	notes := slices.Clone(f.notes)
	if n := f.answered.Load(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d requests", n))
	}
	if f.cut > 0 {
		notes = append(notes, fmt.Sprintf("%d refused or cut off", f.cut))
	}
	return strings.Join(notes, "; ")
}

// Dial opens a session.
func (f *Field) Dial() (*client.Conn, error) {
	c, err := client.Dial(f.ctx, client.Options{Addr: f.Addr, Timeout: 30 * time.Second, Now: time.Now,
		Dial: new(net.Dialer).DialContext})
	if err == nil {
		c.Within = callWithin
	}
	return c, err
}

// Connect opens a connection to a port, which lasts until the attack is over.
func (f *Field) Connect(addr string) (net.Conn, error) {
	nc, err := (&net.Dialer{Timeout: callWithin}).DialContext(f.ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = nc.SetDeadline(f.until.Add(callWithin)) // it is new
	f.mu.Lock()
	f.open = append(f.open, nc)
	f.mu.Unlock()
	return nc, nil
}

// hangUp closes what Connect has opened.
func (f *Field) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, nc := range f.open {
		_ = nc.Close() // the server may have been faster
	}
	f.open = nil
}

// Each has n attackers at work at once, and counts those who end with an error as cut off.
func (f *Field) Each(n int, attack func(i int) error) error {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := attack(i); err != nil {
				f.Cut()
			}
		})
	}
	all.Wait()
	return f.ctx.Err()
}

// Session has an attacker with a session of its own at work.
func (f *Field) Session(attack func(c *client.Conn) error) error {
	c, err := f.Dial()
	if err != nil {
		return err
	}
	defer c.Cut()
	return attack(c)
}

// open is the ACL that lets anyone do anything.
var open = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}

// codeError is an answer that was not hoped for.
type codeError struct {
	op   jute.Op
	code jute.Code
}

func (e codeError) Error() string { return fmt.Sprintf("%v: %v", e.op, e.code) }

// must does one request that is to succeed.
func must(c *client.Conn, op jute.Op, record func([]byte) []byte) error {
	header, _, err := c.Do(op, record)
	if err == nil && header.Err != jute.OK {
		err = codeError{op, header.Err}
	}
	return err
}

// create makes a znode.
func create(c *client.Conn, path string, data []byte) error {
	return must(c, jute.OpCreate, (&jute.CreateRequest{Path: path, Data: data, ACL: open}).Append)
}

// part is one operation of a multi.
type part struct {
	op     jute.Op
	record func([]byte) []byte
}

// multi appends a whole multi of n parts.
func multi(n int, of func(i int) part) func([]byte) []byte {
	return func(b []byte) []byte {
		for i := range n {
			p := of(i)
			h := jute.MultiHeader{Type: p.op, Err: -1}
			b = p.record(h.Append(b))
		}
		return jute.AppendMultiEnd(b)
	}
}

// partsAtOnce is how many operations the preparations put into one multi.
const partsAtOnce = 1000

// bulk does n operations in multis.
func bulk(c *client.Conn, n int, of func(i int) part) error {
	for from := 0; from < n; from += partsAtOnce {
		count := min(partsAtOnce, n-from)
		if err := must(c, jute.OpMulti, multi(count, func(i int) part { return of(from + i) })); err != nil {
			return fmt.Errorf("operations from %d on: %w", from, err)
		}
	}
	return nil
}

// makes is a part that makes a znode.
func makes(path string, mode jute.CreateMode) part {
	op := jute.OpCreate
	if mode == jute.ModeContainer {
		op = jute.OpCreateContainer
	}
	return part{op, (&jute.CreateRequest{Path: path, ACL: open, Flags: mode}).Append}
}

// deletes is a part that deletes a znode.
func deletes(path string) part {
	return part{jute.OpDelete, (&jute.PathVersionRequest{Path: path, Version: -1}).Append}
}

// sets is a part that sets a znode's data.
func sets(path string) part {
	return part{jute.OpSetData, (&jute.SetDataRequest{Path: path, Version: -1}).Append}
}

// flood sends requests, window of them at a time, until the time is over. Answers with errors are answers.
func (f *Field) flood(c *client.Conn, window int, encode func(b []byte, i int, xid jute.Xid) []byte) error {
	for done := 0; !f.Over(); done += window {
		err := c.Pipeline(f.ctx, window, window, func(b []byte, i int, xid jute.Xid) []byte {
			return encode(b, done+i, xid)
		}, func(int, jute.Code) error {
			f.answered.Add(1)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// start starts the servers of an attack.
func (a *Attack) start(tb testing.TB, kind target.Kind) *Field {
	tb.Helper()
	f := &Field{Kind: kind, tb: tb, ctx: tb.Context(), Config: map[string]string{}}
	if kind == target.Zkd {
		f.Config["zkd.diskReserve"] = "0" // it is no data
	}
	var flags []string
	if a.Config != nil {
		more, properties := a.Config(tb)
		for key, value := range more { // any order: the keys differ
			f.Config[key] = value
		}
		flags = properties
	}
	if kind == target.Zookeeper { // as its distribution starts it
		flags = append(flags, "-Xmx1000m", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4")
	}
	if a.Servers == 0 {
		s := target.Start(tb, target.Options{Kind: kind, Config: f.Config, JVMFlags: flags})
		f.Addr, f.servers = s.Addr, []*target.Server{s}
		return f
	}
	e := ensemble.Start(tb, ensemble.Options{Kind: kind, Servers: a.Servers, Config: f.Config, JVMFlags: flags})
	for _, s := range e.Servers {
		f.servers = append(f.servers, s.Server)
		host, ports, _ := strings.Cut(s.Address, ":")
		for port := range strings.SplitSeq(ports, ":") {
			f.Peers = append(f.Peers, net.JoinHostPort(host, port))
		}
	}
	f.Addr = e.Servers[0].Addr
	return f
}

// errServerEnded means that a server did not outlive an attack.
var errServerEnded = errors.New("a server has ended")

// alive fails if a server has ended.
func (f *Field) alive() error {
	for _, s := range f.servers {
		if !s.Running() {
			return errServerEnded
		}
	}
	return nil
}
