package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"zkd/jute"
)

// registers is the number of registers of a round: few, so that clients meet.
const registers = 4

// paths of a round, below its root.
func registerPath(root string, i int) string { return fmt.Sprintf("%s/r%d", root, i) }
func sequencePath(root string) string        { return root + "/s" }
func createPath(root string) string          { return root + "/c" }
func multiPath(root string) string           { return root + "/m" }
func ephemeralPath(root string) string       { return root + "/e" }

// folders are what Plant creates besides the registers.
func folders(root string) []string {
	return []string{sequencePath(root), createPath(root), multiPath(root), ephemeralPath(root)}
}

// Plant makes the znodes that a round begins with.
func Plant(s *Session, root string) error {
	paths := append([]string{root}, folders(root)...)
	for i := range registers {
		paths = append(paths, registerPath(root, i))
	}
	for i, path := range paths {
		data := ""
		if i > len(folders(root)) {
			data = first
		}
		if err := s.Plant(path, data); err != nil {
			return err
		}
	}
	return nil
}

// Client is one client of a round. It belongs to its goroutine, but for LastAck.
type Client struct {
	// LastAck is when the last write was sent that was acknowledged.
	LastAck atomic.Int64
	// Live is the session that the client has left open at the end, nil if none.
	Live *Session
	// Stays means that the client keeps its first session to the end, and Pace how long it waits between two requests.
	// They are set before Run.
	Stays bool
	Pace  time.Duration
	// Own is the path of the ephemeral znode of Live.
	Own string

	id       int
	root     string
	history  *History
	rand     *rand.Rand
	options  SessionOptions
	session  *Session
	values   int
	versions map[string]jute.Version // as the client last saw them
	created  []string
}

// NewClient returns a client that has not begun. options are those of each of its sessions.
func NewClient(id int, root string, history *History, options SessionOptions) *Client {
	return &Client{
		id: id, root: root, history: history, rand: options.Rand, options: options,
		versions: map[string]jute.Version{}, Pace: 10 * time.Millisecond,
	}
}

// Run opens session after session until the stop of its options; the last one it leaves open.
func (c *Client) Run() {
	pace := time.NewTicker(c.Pace)
	defer pace.Stop()
	for !c.options.stopped() {
		session, err := Open(c.options)
		if err != nil {
			c.failed(err)
			return
		}
		c.session = session
		if c.live(pace.C) && !c.options.stopped() {
			c.leave()
		}
	}
}

func (c *Client) failed(err error) {
	if !c.options.stopped() {
		c.history.Violated("client %d: %v", c.id, err)
	}
}

// live uses the session for a while and reports whether it is still there.
func (c *Client) live(pace <-chan time.Time) bool {
	c.Own, c.Live = c.name(ephemeralPath(c.root)), c.session
	c.history.Ephemeral(c.Own, func(e *Ephemeral) {
		e.Session, e.Timeout = c.session.ID, int64(c.session.Timeout)
	})
	reply, _, err := c.session.Create(c.Own, "", jute.ModeEphemeral)
	if err == nil && reply.Err == jute.OK {
		c.history.Ephemeral(c.Own, func(e *Ephemeral) { e.Created = reply.Ret })
	}
	for steps := 50 + c.rand.IntN(800); c.Stays || steps > 0; steps-- {
		if !c.session.Connected() {
			if err := c.session.Connect(); err != nil {
				c.Live = nil
				if errors.Is(err, ErrExpired) {
					c.history.Ephemeral(c.Own, func(e *Ephemeral) { e.Expired = c.options.Now() })
				} else {
					c.failed(err)
				}
				return false
			}
		}
		select {
		case <-pace:
		case <-c.options.Stop:
			return true
		}
		if c.options.rests() {
			continue
		}
		c.step()
		c.LastAck.Store(c.session.Acked)
		c.history.Ephemeral(c.Own, func(e *Ephemeral) { e.Acked = c.session.Acked })
	}
	return true
}

// leave closes the session, or forgets it.
func (c *Client) leave() {
	c.history.Ephemeral(c.Own, func(e *Ephemeral) { e.Ending = c.options.Now() })
	c.Live = nil
	if c.rand.IntN(2) == 0 {
		c.session.Drop()
		return
	}
	if reply, err := c.session.Close(); err == nil && reply.Err == jute.OK {
		c.history.Ephemeral(c.Own, func(e *Ephemeral) { e.Closed = reply.Ret })
	}
}

// name returns a path of the client's own.
func (c *Client) name(parent string) string {
	c.values++
	return fmt.Sprintf("%s/c%d.%d", parent, c.id, c.values)
}

// step does one thing.
func (c *Client) step() {
	path := registerPath(c.root, c.rand.IntN(registers))
	switch n := c.rand.IntN(100); {
	case n < 25:
		c.write(Write, path, jute.AnyVersion)
	case n < 45:
		if version, ok := c.versions[path]; ok {
			c.write(Swap, path, version)
		} else {
			c.read(path, false)
		}
	case n < 65:
		c.syncRead(path)
	case n < 72:
		c.read(path, false)
	case n < 80:
		c.read(path, true)
	case n < 84:
		_, _, _, _ = c.session.Children(sequencePath(c.root), true) // for its watch; a lost connection shows
	case n < 88:
		c.create(Create, createPath(c.root), jute.ModePersistent)
	case n < 92:
		c.create(Sequential, sequencePath(c.root)+"/n-", jute.ModePersistentSequential)
	case n < 94:
		c.remove()
	case n < 96:
		c.multi()
	default:
		c.look()
	}
}

func (c *Client) op(kind Kind, path string) Op {
	return Op{Client: c.id, Session: c.session.ID, Kind: kind, Path: path}
}

// done fills in what a reply tells; a code that the kind cannot have is a violation.
func (c *Client) done(op *Op, reply Reply, err error, may jute.Code) {
	op.Call, op.Ret, op.Zxid = reply.Call, reply.Ret, reply.Zxid
	switch {
	case err != nil:
		op.Outcome, op.Zxid = Unknown, 0
	case reply.Err == jute.OK:
		op.Outcome = Done
	case reply.Err == may:
		op.Outcome = Refused
	case reply.Err == jute.SystemError && op.grows():
		op.Outcome = Declined
	case reply.Err == jute.SessionExpired:
		op.Outcome, op.Zxid = Unknown, 0
		c.session.Drop() // and find out
	default:
		op.Outcome, op.Zxid = Unknown, 0
		c.history.Violated("%v was answered with %v", op, reply.Err)
	}
}

func (c *Client) write(kind Kind, path string, version jute.Version) {
	op := c.op(kind, path)
	c.values++
	op.Value, op.Expected = fmt.Sprintf("v%d.%d", c.id, c.values), version
	reply, stat, err := c.session.SetData(path, op.Value, version)
	c.done(&op, reply, err, jute.BadVersion)
	delete(c.versions, path)
	if op.Outcome == Done {
		op.Version, op.Mzxid = stat.Version, stat.Mzxid
		c.versions[path] = stat.Version
	}
	c.history.Add(op)
}

func (c *Client) read(path string, watch bool) {
	op := c.op(Read, path)
	reply, value, stat, err := c.session.GetData(path, watch)
	if err != nil {
		return
	}
	c.record(op, reply, value, stat)
}

func (c *Client) syncRead(path string) {
	op := c.op(SyncRead, path)
	sync, err := c.session.Sync(path)
	if err != nil || sync.Err != jute.OK {
		return
	}
	reply, value, stat, err := c.session.GetData(path, false)
	if err != nil {
		return
	}
	reply.Call = sync.Call
	c.record(op, reply, value, stat)
}

// record notes a read.
func (c *Client) record(op Op, reply Reply, value string, stat jute.Stat) {
	c.done(&op, reply, nil, jute.OK)
	op.Value, op.Version, op.Mzxid = value, stat.Version, stat.Mzxid
	c.versions[op.Path] = stat.Version
	c.history.Add(op)
}

func (c *Client) create(kind Kind, parent string, mode jute.CreateMode) {
	path := parent
	if kind == Create {
		path = c.name(parent)
	}
	op := c.op(kind, path)
	reply, given, err := c.session.Create(path, "", mode)
	c.done(&op, reply, err, jute.OK)
	op.Value = given
	if kind == Create && op.Outcome == Done {
		c.created = append(c.created, path)
	}
	c.history.Add(op)
}

func (c *Client) remove() {
	if len(c.created) == 0 {
		return
	}
	op := c.op(Remove, c.created[len(c.created)-1])
	c.created = c.created[:len(c.created)-1]
	reply, err := c.session.Delete(op.Path)
	c.done(&op, reply, err, jute.OK)
	c.history.Add(op)
}

func (c *Client) multi() {
	op := c.op(Multi, c.name(multiPath(c.root)))
	reply, err := c.session.CreateAll(op.Path+"-a", op.Path+"-b")
	c.done(&op, reply, err, jute.OK)
	c.history.Add(op)
}

// look looks at an ephemeral znode of any session.
func (c *Client) look() {
	path := c.history.AnyEphemeral(c.rand.IntN)
	if path == "" || path == c.Own {
		return
	}
	sync, err := c.session.Sync(path)
	if err != nil || sync.Err != jute.OK {
		return
	}
	reply, stat, err := c.session.Exists(path)
	if err != nil {
		return
	}
	c.history.See(Sighting{
		Path: path, Call: sync.Call, Ret: reply.Ret, Present: reply.Err == jute.OK, Owner: stat.EphemeralOwner,
		Addr: c.session.Addr,
	})
}

// Finish reads all that has a watch once more, so that no event is missing at the end, and shows that the session
// lives.
func (c *Client) Finish() error {
	if c.Live == nil {
		return nil
	}
	if err := c.Touch(); err != nil || c.Live == nil {
		return err
	}
	for i := range registers {
		c.syncRead(registerPath(c.root, i))
	}
	if _, err := c.session.Sync(sequencePath(c.root)); err == nil {
		_, _, _, _ = c.session.Children(sequencePath(c.root), false) // for its watch; a lost connection shows
	}
	return c.Touch()
}

// Ping keeps the session alive that Run has left open, and changes nothing. On a machine that stands still the session
// may expire nevertheless: then Live is nil, and whether it was too early is for CheckEphemerals to say.
func (c *Client) Ping() error {
	if c.Live == nil || c.session.Ping() == nil {
		return nil
	}
	switch err := c.session.Connect(); {
	case errors.Is(err, ErrExpired):
		c.Live = nil
		c.history.Ephemeral(c.Own, func(e *Ephemeral) { e.Expired = c.options.Now() })
	case err != nil:
		return fmt.Errorf("client %d after the faults: %w", c.id, err)
	}
	return nil
}

// touches is how often Touch writes until it is acknowledged: on a slow machine a connection may end any time.
const touches = 5

// Touch writes, to show that the session lives.
func (c *Client) Touch() error {
	var last error
	for range touches {
		if err := c.Ping(); err != nil || c.Live == nil {
			return err
		}
		reply, _, err := c.session.SetData(sequencePath(c.root), "", jute.AnyVersion)
		if err == nil && reply.Err == jute.OK {
			c.history.Ephemeral(c.Own, func(e *Ephemeral) { e.Acked = reply.Call })
			return nil
		}
		last = fmt.Errorf("client %d writes after the faults: %v, %w", c.id, reply.Err, err)
		c.session.Drop() // and find out
	}
	return last
}

// End closes the session that Run has left open.
func (c *Client) End() {
	if c.Live != nil {
		reply, err := c.Live.Close()
		c.history.Ephemeral(c.Own, func(e *Ephemeral) {
			e.Ending = reply.Call
			if err == nil {
				e.Closed = reply.Ret
			}
		})
	}
}
