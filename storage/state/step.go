package state

import "sync/atomic"

// Step is what Apply is at with an entry.
type Step uint8

// The steps, in their order.
const (
	StepNone     Step = iota // no entry is applied
	StepFlush                // it waits until less is applied and not durable
	StepEvaluate             // a proposal
	StepPublish              // it waits for those who hold a Present, and writes to the store
	StepTell                 // the result of a proposal, with its watch events
)

// String is the step's name in logs.
func (s Step) String() string {
	return [...]string{StepNone: "none", StepFlush: "flush", StepEvaluate: "evaluate", StepPublish: "publish",
		StepTell: "tell"}[s]
}

// steps is what Apply is at, for others to see. Written by the apply goroutine.
type steps struct{ now atomic.Uint64 } // the step, in the upper half, and the proposal

// at says that Apply is at a step with a proposal.
func (s *steps) at(step Step, proposal int) { s.now.Store(uint64(step)<<32 | uint64(uint32(proposal))) }
