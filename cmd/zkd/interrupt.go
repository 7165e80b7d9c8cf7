package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"zkd/storage/migrate"
	"zkd/storage/zkdata"
)

// interruptible lets SIGINT and SIGTERM end cmd's context, so that what is half done is taken away, until the returned
// function is called. The second one ends the process.
func interruptible(cmd *cobra.Command) (done func()) {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	cmd.SetContext(ctx)
	return stop
}

// interrupted words the error of a command that a signal has ended; left says what there is of its work. Any other
// error, also one of taking away what was half done, stays as it is.
func interrupted(ctx context.Context, err error, left string) error {
	if err == nil || ctx.Err() == nil || !canceledAlone(ctx, err) {
		return err
	}
	return fmt.Errorf("interrupted: %s", left)
}

// canceledAlone tells whether an error is the end of a context, and of errors that were joined each one.
func canceledAlone(ctx context.Context, err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // each of them counts
		all := true
		for _, one := range joined.Unwrap() {
			all = all && canceledAlone(ctx, one)
		}
		return all
	}
	if one := errors.Unwrap(err); one != nil {
		return canceledAlone(ctx, one)
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))
}

// interruptibleReader reads until its context ends, also from what does not answer. It is for one goroutine. What a
// read that was given up has got is lost.
type interruptibleReader struct {
	ctx   context.Context //nolint:containedctx // io.Reader has none
	r     io.Reader
	b     []byte      // what was read and not taken yet
	reads chan []byte // of size 1: a read may end when nobody waits for it
	err   error       // written before reads is told
	space []byte
}

// interruptibleReadBytes is how much is read at once.
const interruptibleReadBytes = 256 << 10

// newInterruptibleReader returns a reader of r.
func newInterruptibleReader(ctx context.Context, r io.Reader) *interruptibleReader {
	return &interruptibleReader{ctx: ctx, r: r, reads: make(chan []byte, 1),
		space: make([]byte, interruptibleReadBytes)}
}

// Read implements io.Reader.
func (i *interruptibleReader) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	if len(i.b) == 0 && i.err == nil {
		go func() {
			n, err := i.r.Read(i.space)
			i.err = err
			i.reads <- i.space[:n]
		}()
		select {
		case i.b = <-i.reads:
		case <-i.ctx.Done():
			return 0, i.ctx.Err()
		}
	}
	if len(i.b) == 0 {
		return 0, i.err
	}
	n := copy(p, i.b)
	i.b = i.b[n:]
	return n, nil
}

// interruptibleSource is a state that is written down until a context ends.
type interruptibleSource struct {
	migrate.Source

	ctx context.Context //nolint:containedctx // zkdata.Source has none
}

// Nodes implements zkdata.Source.
func (s interruptibleSource) Nodes(data bool, f func(n *zkdata.Node) error) error {
	return s.Source.Nodes(data, func(n *zkdata.Node) error {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		return f(n)
	})
}
