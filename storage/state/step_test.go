package state

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// stepSeen is what a machine is at, and with which proposal.
type stepSeen struct {
	step     Step
	proposal int
}

// stepSink is a Decider that looks at what the machine is at.
type stepSink struct {
	m    *Machine
	seen []stepSeen
}

// Result implements Sink.
func (s *stepSink) Result(_, _ uint64, _ int, _ *apply.Result) { s.note() }

// Decided implements Decider.
func (s *stepSink) Decided([]apply.Result) error {
	s.note()
	return nil
}

// note notes it.
func (s *stepSink) note() {
	step, proposal := s.m.Applying()
	s.seen = append(s.seen, stepSeen{step, proposal})
}

// TestApplyTellsWhatItIsAt applies an entry of three proposals.
func TestApplyTellsWhatItIsAt(t *testing.T) {
	m := openLevelMachine(t, vfs.NewMem())
	defer closeMachine(t, m)
	s := &stepSink{m: m}
	s.note()
	data := entry.AppendEntryHeader(nil, 1, 1)
	for range 3 {
		data = entry.AppendProposal(data, &entry.Proposal{Op: jute.OpError, Code: jute.OK})
	}
	if err := m.Apply(1, 1, data, s); err != nil {
		t.Fatal(err)
	}
	s.note()
	want := []stepSeen{{StepNone, 0}, {StepEvaluate, 2}, {StepTell, 0}, {StepTell, 1}, {StepTell, 2}, {StepNone, 0}}
	if !slices.Equal(s.seen, want) {
		t.Errorf("it was at %v, want %v", s.seen, want)
	}
}
