package top

import (
	"context"
	"time"

	"zkd/cmd/zkd/terminal"
	"zkd/quorum/clock"
)

// display is a terminal.
type display interface {
	Size() (columns, rows int)
	Draw(lines []terminal.Line) error
}

// LiveOptions says what a live view consists of.
type LiveOptions struct {
	Screen display
	Keys   <-chan terminal.Key
	// Ask asks the servers.
	Ask      func(ctx context.Context) *Report
	Interval time.Duration // between two reports
	Clock    clock.Clock
	Model    *Model
}

// sizeTick is how often the size of the window is looked at.
const sizeTick = 200 * time.Millisecond

// Live shows reports until a key or ctx ends it.
func Live(ctx context.Context, o *LiveOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	reports, done := make(chan *Report), make(chan struct{})
	go func() {
		defer close(done)
		askAgainAndAgain(ctx, o, reports)
	}()
	defer func() {
		cancel()
		<-done
	}()
	ticker := o.Clock.NewTicker(sizeTick)
	defer ticker.Stop()
	columns, rows := 0, 0
	for {
		changed := true
		select {
		case <-ctx.Done():
			return nil
		case r := <-reports:
			o.Model.Show(r)
		case k := <-o.Keys:
			if o.Model.Key(k) {
				return nil
			}
		case <-ticker.C():
			c, r := o.Screen.Size()
			changed = c != columns || r != rows
		}
		if !changed {
			continue
		}
		columns, rows = o.Screen.Size()
		if err := o.Screen.Draw(o.Model.Lines(rows)); err != nil {
			return err
		}
	}
}

// askAgainAndAgain asks the servers at each interval.
func askAgainAndAgain(ctx context.Context, o *LiveOptions, to chan<- *Report) {
	ticker := o.Clock.NewTicker(o.Interval)
	defer ticker.Stop()
	for {
		r := o.Ask(ctx)
		select {
		case to <- r:
		case <-ctx.Done():
			return
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
	}
}
