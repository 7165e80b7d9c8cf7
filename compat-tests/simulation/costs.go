package simulation

import (
	"fmt"
	"time"

	"zkd/server/sim/costs"
)

// appliedWithin is how long an entry may take to apply, in simulated time. It may wait for room in what is not flushed,
// and, if it changes the members, for the log's disk; that does not count. Else it waits for nothing: no disk, however
// slow, holds up readers or the entries behind it.
const appliedWithin = 250 * time.Millisecond

// What an entry may ask of the state: so much for itself, for each of its bytes (a multi has small requests), and for
// each key that it writes. How large the state is makes no difference.
const (
	readsOfEntry = 8
	bytesOfRead  = 16 // in the log, for one read, or one request
	readsOfWrite = 2
)

// Defaults of zkd for what an entry may step over: children of the parent that it creates in, and what is below quotas
// that it counts (twice: apply.Options).
const (
	namesScanDefault   = 256
	countZnodesDefault = 1 << 10
)

// applied is what the entries of a run have cost.
type applied struct {
	Entries              int // of all servers
	Reads, Steps, Writes int // the most of one entry
}

// add adds those of another run.
func (a *applied) add(b *applied) {
	a.Entries, a.Writes = a.Entries+b.Entries, max(a.Writes, b.Writes)
	a.Reads, a.Steps = max(a.Reads, b.Reads), max(a.Steps, b.Steps)
}

// allowance is what an entry may step over beside what it asks for, with the knobs of a plan.
type allowance struct{ children, counted int }

// allowanceOf is that of a plan.
func allowanceOf(p *Plan) allowance {
	return allowance{children: int(p.knob("storage/apply.namesScanMax", namesScanDefault)),
		counted: int(p.knob("storage/apply.CountZnodesMax", countZnodesDefault))}
}

// most is how many znodes an entry may ask for, and how many keys it may step over.
func (a allowance) most(e *costs.Entry) (reads, steps int) {
	reads = readsOfEntry + e.Bytes/bytesOfRead + e.Writes*readsOfWrite
	steps = reads + (1+e.Bytes/bytesOfRead)*a.children
	if e.Counts {
		steps += 2 * a.counted
	}
	return reads, steps
}

// tooDear says what an entry costs too much, "" if nothing.
func (a allowance) tooDear(e *costs.Entry) string {
	switch reads, steps := a.most(e); {
	case e.Reads > reads:
		return fmt.Sprintf("%d znodes were read, at most %d are to be with %d writes", e.Reads, reads, e.Writes)
	case e.Steps > steps:
		return fmt.Sprintf("%d keys were stepped over, at most %d are to be with %d writes", e.Steps, steps, e.Writes)
	case e.Took > appliedWithin:
		return fmt.Sprintf("it took %v, beside the wait for a flush", e.Took)
	}
	return ""
}

// watchCosts has it be looked what each entry of a run costs from now on, and returns what they have cost.
func watchCosts(p *Plan, violated func(format string, args ...any)) *applied {
	sum, may := &applied{}, allowanceOf(p)
	costs.Hear(func(e *costs.Entry) {
		sum.add(&applied{Entries: 1, Reads: e.Reads, Steps: e.Steps, Writes: e.Writes})
		if why := may.tooDear(e); why != "" {
			violated("server %d applied entry %d, of %d bytes: %s", e.Group, e.Index, e.Bytes, why)
		}
	})
	return sum
}

// costPatches have storage/state tell what entries cost.
func costPatches() []Patch {
	const file = "storage/state/machine.go"
	return []Patch{
		{file, "	steps  steps\n	buried buried\n", "	steps  steps\n	buried buried\n	spent  spending\n"},
		{file, "Store: &m.shown, Replacement", "Store: countedStore{&m.shown, &m.spent}, Replacement"},
		{file, "	t := m.txn\n	t.Begin(index, term)\n",
			"	m.spent.begin(m)\n	t := m.txn\n	t.Begin(index, term)\n"},
		{file, "m.txn.Prepare(m.batch)", "m.txn.Prepare(countedBatch{m.batch, &m.spent})"},
		{file, "	m.steps.at(StepPublish, 0)\n	m.mu.Lock()\n",
			"	m.spent.decided(c.Ensemble != m.mu.Ensemble)\n	m.steps.at(StepPublish, 0)\n	m.mu.Lock()\n"},
		{file, "	requests := len(t.Results)\n",
			"	requests := len(t.Results)\n	if err == nil {\n" +
				"		m.spent.end(m, index, len(data), t.Replaced)\n	}\n"},
	}
}

// countedSource is what is added to storage/state.
const countedSource = `package %s

import (
	"bytes"
	"time"

	"zkd/server/sim/costs"
	"zkd/server/sim/goruntime"
	"zkd/storage/apply"
	"zkd/storage/schema"
)

// spending is what the present entry costs. Owned by the apply goroutine.
type spending struct {
	reads, steps, writes int
	counts               bool // a quota is counted, was made or has gone
	began                time.Time
	pauses               int
}

func (s *spending) begin(m *Machine) {
	*s = spending{began: time.Now(), counts: m.CountingQuotas() > 0}
	_, s.pauses = goruntime.Group()
}

func (s *spending) end(m *Machine, index uint64, bytes int, replaced bool) {
	group, pauses := goruntime.Group()
	e := &costs.Entry{Group: group, Index: index, Bytes: bytes, Reads: s.reads, Steps: s.steps,
		Writes: s.writes, Counts: s.counts || m.CountingQuotas() > 0}
	if !replaced && pauses == s.pauses {
		e.Took = time.Since(s.began)
	}
	costs.Tell(e)
}

// decided: a change of the members is on the log's disk before it is published, and may take what that takes.
func (s *spending) decided(members bool) {
	if members {
		s.began = time.Now()
	}
}

func (s *spending) write(key []byte) {
	s.writes++
	s.counts = s.counts || bytes.Contains(key, []byte(schema.LimitsName))
}

type countedStore struct {
	apply.Store
	spent *spending
}

func (s countedStore) Znode(path string) (*schema.Znode, error) {
	s.spent.reads++
	return s.Store.Znode(path)
}

func (s countedStore) Data(n *schema.Znode) ([]byte, error) {
	s.spent.reads++
	return s.Store.Data(n)
}

func (s countedStore) Scan(lower, upper []byte) (apply.Cursor, error) {
	at, err := s.Store.Scan(lower, upper)
	if err != nil {
		return nil, err
	}
	return countedCursor{at, s.spent}, nil
}

type countedCursor struct {
	apply.Cursor
	spent *spending
}

func (c countedCursor) First() bool {
	c.spent.steps++
	return c.Cursor.First()
}

func (c countedCursor) Next() bool {
	c.spent.steps++
	return c.Cursor.Next()
}

type countedBatch struct {
	apply.Batch
	spent *spending
}

func (b countedBatch) Set(key, value []byte) error {
	b.spent.write(key)
	return b.Batch.Set(key, value)
}

func (b countedBatch) Delete(key []byte) error {
	b.spent.write(key)
	return b.Batch.Delete(key)
}
`
