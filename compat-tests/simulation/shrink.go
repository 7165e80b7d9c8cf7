package simulation

import (
	"context"
	"maps"
	"slices"
	"time"
)

// shrinkWithin bounds the search for a smaller plan, in real time.
const shrinkWithin = 5 * time.Minute

// Shrink makes a plan that fails smaller: it leaves out deeds, clients, settings and knobs, and what comes after the
// failure, as long as the plan fails. It returns the smallest that it has found, with its outcome.
func (r *Runner) Shrink(ctx context.Context, p *Plan, out Outcome) (*Plan, Outcome) {
	ctx, cancel := context.WithTimeout(ctx, shrinkWithin)
	defer cancel()
	s := &shrinker{ctx: ctx, runner: r, plan: p, outcome: out}
	for smaller := true; smaller && ctx.Err() == nil; {
		smaller = s.stays()
		smaller = s.starts() || smaller
		smaller = s.parts(func(p *Plan) *[]Deed { return &p.Deeds }) || smaller
		smaller = s.parts(func(p *Plan) *[]Deed { return &p.Members }) || smaller
		smaller = s.parts(func(p *Plan) *[]Deed { return &p.Admin }) || smaller
		smaller = s.imports() || smaller
		smaller = s.roles() || smaller
		smaller = s.clients() || smaller
		smaller = s.settings() || smaller
		smaller = s.knobs() || smaller
	}
	return s.plan, s.outcome
}

// shrinker holds the smallest plan that fails.
type shrinker struct {
	ctx     context.Context
	runner  *Runner
	plan    *Plan
	outcome Outcome
}

// try plays a smaller plan, and keeps it if it fails.
func (s *shrinker) try(change func(*Plan)) bool {
	p := *s.plan
	p.Deeds, p.Settings, p.Roles = slices.Clone(p.Deeds), slices.Clone(p.Settings), slices.Clone(p.Roles)
	p.Knobs, p.Members, p.Admin = maps.Clone(p.Knobs), slices.Clone(p.Members), slices.Clone(p.Admin)
	if p.Import != nil {
		m := *p.Import
		m.Deeds = slices.Clone(m.Deeds)
		p.Import = &m
	}
	change(&p)
	out, err := s.runner.Play(s.ctx, &p)
	if err != nil || s.ctx.Err() != nil || len(out.Violations) == 0 {
		return false
	}
	s.plan, s.outcome = &p, out
	return true
}

// stays leaves out what stays.
func (s *shrinker) stays() bool {
	return s.plan.Stays != nil && s.try(func(p *Plan) { p.Stays, p.Linger = nil, 0 }) ||
		s.plan.Linger > 0 && s.try(func(p *Plan) { p.Linger = 0 })
}

// starts leaves out that servers start at different times, or as the version before.
func (s *shrinker) starts() bool {
	return s.plan.Starts != nil && s.try(func(p *Plan) { p.Starts = nil }) ||
		s.plan.Before && s.try(func(p *Plan) { p.Before = false })
}

// parts leaves out deeds: halves first, then smaller and smaller parts.
func (s *shrinker) parts(of func(*Plan) *[]Deed) (smaller bool) {
	for size := (len(*of(s.plan)) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(*of(s.plan)) && s.ctx.Err() == nil; {
			end := min(at+size, len(*of(s.plan)))
			if s.try(func(p *Plan) { *of(p) = slices.Delete(*of(p), at, end) }) {
				smaller = true
			} else {
				at = end
			}
		}
	}
	return smaller
}

// imports leaves out an import, or what befalls it.
func (s *shrinker) imports() (smaller bool) {
	if s.plan.Import == nil {
		return false
	}
	return s.try(func(p *Plan) { p.Import = nil }) || s.parts(func(p *Plan) *[]Deed { return &p.Import.Deeds })
}

// clients leaves out clients.
func (s *shrinker) clients() (smaller bool) {
	for s.plan.GoClients > 0 && s.try(func(p *Plan) { p.GoClients-- }) {
		smaller = true
	}
	for s.plan.Clients > 1 && s.try(func(p *Plan) { p.Clients-- }) {
		smaller = true
	}
	return smaller
}

// roles leaves out roles, and then clients of those that are left.
func (s *shrinker) roles() (smaller bool) {
	for at := 0; at < len(s.plan.Roles) && s.ctx.Err() == nil; {
		switch {
		case s.try(func(p *Plan) { p.Roles = slices.Delete(p.Roles, at, at+1) }):
			smaller = true
		case s.plan.Roles[at].Clients > 1 && s.try(func(p *Plan) { p.Roles[at].Clients-- }):
			smaller = true
		default:
			at++
		}
	}
	return smaller
}

// settings leaves out lines of the configuration, but those that the rest depends on.
func (s *shrinker) settings() (smaller bool) {
	for at := settingsAlways; at < len(s.plan.Settings); {
		if s.try(func(p *Plan) { p.Settings = slices.Delete(p.Settings, at, at+1) }) {
			smaller = true
		} else {
			at++
		}
	}
	return smaller
}

// knobs leaves out knobs: all, or else one after the other.
func (s *shrinker) knobs() (smaller bool) {
	if len(s.plan.Knobs) > 0 && s.try(func(p *Plan) { p.Knobs = nil }) {
		return true
	}
	for _, key := range slices.Sorted(maps.Keys(s.plan.Knobs)) {
		smaller = s.try(func(p *Plan) { delete(p.Knobs, key) }) || smaller
	}
	return smaller
}
