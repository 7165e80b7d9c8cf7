package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"zkd/quorum/clock"
)

// progressEvery is how often a line of progress changes.
const progressEvery = 200 * time.Millisecond

// progress shows on a terminal how far long work has come: one line on stderr that is written over. Where stderr is no
// terminal it shows nothing.
type progress struct {
	w     io.Writer // nil: shows nothing
	total int64     // 0: not known
	shown time.Time
	began time.Time
	width int // of what is on the line
}

// newProgress begins to show work on total znodes.
func newProgress(w io.Writer, total int64) *progress {
	if !isTerminal(w) {
		w = nil
	}
	return &progress{w: w, total: total, began: clock.Real().Now()}
}

// isTerminal tells whether what is written to w is seen at once by somebody.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && file.Name() != os.DevNull
}

// at shows that n znodes are done.
func (p *progress) at(n int64) {
	if p.w == nil {
		return
	}
	now := clock.Real().Now()
	if now.Sub(p.shown) < progressEvery {
		return
	}
	p.shown = now
	text := fmt.Sprintf("%d znodes", n)
	if p.total > 0 {
		text = fmt.Sprintf("%d of %d znodes (%d %%)", n, p.total, n*100/p.total)
	}
	if seconds := now.Sub(p.began).Seconds(); seconds > 1 {
		text += fmt.Sprintf(", %.0f a second", float64(n)/seconds)
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

// interruptible lets SIGINT and SIGTERM end cmd's context, so that what is half done is taken away, until the returned
// function is called. The second one ends the process.
func interruptible(cmd *cobra.Command) (done func()) {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	cmd.SetContext(ctx)
	return stop
}

// writeTable writes lines whose cells are separated by tabs, in columns.
func writeTable(w io.Writer, lines string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(t, lines); err != nil {
		return err
	}
	return t.Flush()
}

// outputFlag is the value of --output.
type outputFlag struct{ json bool }

// String implements pflag.Value.
func (o *outputFlag) String() string {
	if o.json {
		return "json"
	}
	return "text"
}

// Set implements pflag.Value.
func (o *outputFlag) Set(s string) error {
	if s != "text" && s != "json" {
		return fmt.Errorf("want text or json")
	}
	o.json = s == "json"
	return nil
}

// Type implements pflag.Value.
func (o *outputFlag) Type() string { return "text|json" }

// addTo adds the flag --output to cmd.
func (o *outputFlag) addTo(cmd *cobra.Command) {
	cmd.Flags().VarP(o, "output", "o", "how the result is written")
	// It fails for a flag that is not there only.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"},
		cobra.ShellCompDirectiveNoFileComp))
}

// write writes v as JSON, or what text writes.
func (o *outputFlag) write(w io.Writer, v any, text func(w io.Writer) error) error {
	if !o.json {
		return text(w)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
