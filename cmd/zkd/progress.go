package main

import (
	"fmt"
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

// progressBar shows on a terminal how far a command has come; elsewhere it shows nothing.
type progressBar struct {
	out   *os.File // nil: no terminal
	clock clock.Clock
	shown time.Time
	width int // of the line that is there
}

// newProgressBar returns a bar for out.
func newProgressBar(out *os.File, c clock.Clock) *progressBar {
	info, err := out.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return &progressBar{}
	}
	return &progressBar{out: out, clock: c}
}

// show says that so much is done, with a text behind it. It draws a few times a second at most.
func (b *progressBar) show(done, total int64, text string) {
	if b.out == nil || b.clock.Since(b.shown) < progressEvery {
		return
	}
	b.shown = b.clock.Now()
	b.draw(progressLine(done, total, text))
}

// end removes the bar.
func (b *progressBar) end() {
	if b.out != nil && b.width > 0 {
		b.draw("")
		_, _ = fmt.Fprint(b.out, "\r") // nobody can be told
	}
}

// draw puts line where the one before it is.
func (b *progressBar) draw(line string) {
	_, _ = fmt.Fprint(b.out, "\r", line, strings.Repeat(" ", max(0, b.width-len(line)))) // nobody can be told
	b.width = len(line)
}

// progressLine is the bar itself. A total that is not known is 0.
func progressLine(done, total int64, text string) string {
	if total <= 0 {
		return text
	}
	done = min(done, total)
	full := int(done * progressCells / total)
	return fmt.Sprintf("[%s%s] %3d%% %s", strings.Repeat("#", full), strings.Repeat(".", progressCells-full),
		done*100/total, text)
}
