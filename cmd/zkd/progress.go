package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"zkd/quorum/clock"
)

// How the progress of a command is shown.
const (
	progressCells = 30
	progressEvery = 200 * time.Millisecond
)

// progress shows on a terminal how far long work has come: one line on stderr that is written over. Where stderr is no
// terminal it shows nothing.
type progress struct {
	w     io.Writer // nil: shows nothing
	what  string    // there are so many of
	total int64     // 0: not known
	shown time.Time
	began time.Time
	width int // of what is on the line
}

// newProgress begins to show work on total things.
func newProgress(w io.Writer, total int64) *progress {
	if !isTerminal(w) {
		w = nil
	}
	return &progress{w: w, what: "znodes", total: total, began: clock.Real().Now()}
}

// isTerminal tells whether what is written to w is seen at once by somebody.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && file.Name() != os.DevNull
}

// at shows that n znodes are done, of as many as there are things.
func (p *progress) at(n int64) { p.show(n, p.total, n) }

// show shows that so much of total is done, which has brought so many znodes, and how fast they come. It draws a few
// times a second at most.
func (p *progress) show(done, total, znodes int64) {
	if p.w == nil {
		return
	}
	now := clock.Real().Now()
	if now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = now
	text := progressBar(done, total) + fmt.Sprintf("%d %s", znodes, p.what)
	if seconds := now.Sub(p.began).Seconds(); seconds > 1 {
		text += fmt.Sprintf(", %.0f a second", float64(znodes)/seconds)
	}
	p.line(text)
}

// end clears the line.
func (p *progress) end() {
	if p.w != nil && p.width > 0 {
		p.line("")
		p.line("")
	}
}

// line writes over what is on the line.
func (p *progress) line(text string) {
	// A terminal that is gone needs no progress.
	_, _ = io.WriteString(p.w, "\r"+text+strings.Repeat(" ", max(p.width-len(text), 0)))
	p.width = len(text)
}

// progressBar is the bar itself; none if the total, 0, is not known.
func progressBar(done, total int64) string {
	if total <= 0 {
		return ""
	}
	done = min(done, total)
	full := int(done * progressCells / total)
	return fmt.Sprintf("[%s%s] %3d%% ", strings.Repeat("#", full), strings.Repeat(".", progressCells-full),
		done*100/total)
}
