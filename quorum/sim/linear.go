package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"zkd/jute"
)

// This is the check that knows nothing of the log: writes of registers and reads behind a sync, with the moments of
// their calls and answers, must be explained by some order of whole operations, one register after the other.

// register is the state of one register in the model.
type register struct {
	there   bool
	version jute.Version
	data    string
}

// modelInput is what an operation asks of one register.
type modelInput struct {
	step
	read bool
}

// modelOutput is what it was answered; an operation whose answer is not known has anyone, and may come at any later
// time, or, after all others, never.
type modelOutput struct {
	known   bool
	code    jute.Code
	version jute.Version // after a setData that was OK, or of a read
	found   bool
	data    string
}

// model is how a register behaves.
var model = porcupine.Model{
	Init:  func() any { return register{} },
	Step:  func(state, input, output any) (bool, any) { return stepRegister(state, input, output) },
	Equal: func(a, b any) bool { return a == b },
}

// stepRegister tells whether an operation can have had its answer in a state, and what comes of it.
func stepRegister(state, input, output any) (bool, any) {
	s, in, out := state.(register), input.(modelInput), output.(modelOutput)
	if in.read {
		fits := out.found == s.there && (!s.there || out.version == s.version && out.data == s.data)
		return fits, s
	}
	next, code := in.apply(s)
	if !out.known {
		return true, next
	}
	fits := code == out.code && (in.kind != jute.OpSetData || code != jute.OK || out.version == next.version)
	return fits, next
}

// apply is what a step does to a register, and its answer.
func (in *modelInput) apply(s register) (register, jute.Code) {
	if in.kind == jute.OpCreate {
		if s.there {
			return s, jute.NodeExists
		}
		return register{there: true, data: in.data}, jute.OK
	}
	switch {
	case !s.there:
		return s, jute.NoNode
	case in.version != jute.AnyVersion && in.version != s.version:
		return s, jute.BadVersion
	}
	switch in.kind {
	case jute.OpSetData:
		s.version++
		s.data = in.data
	case jute.OpDelete:
		s = register{}
	}
	return s, jute.OK
}

// checkLinear gives each register's history to the checker.
func (w *world) checkLinear() {
	if w.failure != nil {
		return
	}
	for _, path := range registers {
		history := w.registerHistory(path)
		if !porcupine.CheckOperations(model, history) {
			w.fail("the history of %s is not linearizable: %s", path, describeHistory(history))
		}
	}
}

// registerHistory is all that happened to one register.
func (w *world) registerHistory(path string) []porcupine.Operation {
	var history []porcupine.Operation
	for _, o := range w.history {
		if in, out, ok := o.on(path); ok {
			w.count(drawnLinearOp)
			ret := o.ret
			if !out.known && !in.read {
				ret = math.MaxInt64
			}
			history = append(history, porcupine.Operation{
				ClientId: o.c.id, Input: in, Call: o.call, Output: out, Return: ret,
			})
		}
	}
	return history
}

// on is what an operation does to a register; false if nothing, or nothing that can be told from its answer.
func (o *op) on(path string) (in modelInput, out modelOutput, ok bool) {
	if o.kind == jute.OpSync {
		a := &o.answer
		out = modelOutput{known: true, found: a.found, version: a.stat.Version, data: a.data}
		return modelInput{read: true}, out, o.path == path && o.state == opAnswered
	}
	i := slices.IndexFunc(o.steps, func(s step) bool { return s.path == path })
	if i < 0 || o.state == opRefused || o.steps[i].kind == jute.OpSetACL {
		return in, out, false
	}
	in.step = o.steps[i]
	if o.state != opAnswered {
		return in, out, true
	}
	switch out.code = o.answer.code; out.code {
	case jute.OK:
	case jute.NoNode, jute.NodeExists, jute.BadVersion:
		if o.kind == jute.OpMulti {
			return in, out, false // it may be another step's answer, and nothing was done
		}
	default:
		return in, out, false
	}
	out.known, out.version = true, o.answer.stat.Version
	if o.kind == jute.OpMulti {
		out.version = o.answer.stats[i].Version
	}
	return in, out, true
}

// describeHistory is a history for a message, a line for each operation.
func describeHistory(history []porcupine.Operation) string {
	text := ""
	for i := range history {
		h := &history[i]
		text += fmt.Sprintf("\n[%d, %d] client %d: %+v → %+v", h.Call, h.Return, h.ClientId, h.Input, h.Output)
	}
	return text
}
