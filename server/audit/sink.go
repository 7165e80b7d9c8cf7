package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
)

// Sink takes events, of one goroutine.
type Sink interface {
	// Write takes one event, which it does not keep. It may hold it back until Flush.
	Write(e *Event)
	// Flush writes what was held back. An error says why, and how many lines, are lost.
	Flush() error
}

// level is that of an event's line: what failed is an error, as in org.apache.zookeeper.audit.Slf4jAuditLogger.
func (e *Event) level() slog.Level {
	if e.Result == Failure {
		return slog.LevelError
	}
	return slog.LevelInfo
}

// message is that of the lines of a slog handler.
const message = "audit"

// logged writes events to a handler of slog, one record each.
type logged struct {
	handler slog.Handler
	failed  int
	err     error
}

// ToHandler returns a Sink that makes a record of each event, with its fields as attributes. To the server's own log it
// is given a handler that has an attribute which tells its lines from the others.
func ToHandler(h slog.Handler) Sink { return &logged{handler: h} }

// Write makes a record of e. What the handler's level leaves out is written nevertheless: the audit log has no levels
// to choose from.
func (l *logged) Write(e *Event) {
	r := slog.NewRecord(e.Time, e.level(), message, 0)
	var few [8]field
	for _, f := range e.fields(few[:0]) {
		r.AddAttrs(slog.String(f.key, f.value))
	}
	if err := l.handler.Handle(context.Background(), r); err != nil {
		l.failed, l.err = l.failed+1, err
	}
}

// Flush tells of records that the handler has not taken.
func (l *logged) Flush() error {
	n, err := l.failed, l.err
	l.failed, l.err = 0, nil
	if err != nil {
		return fmt.Errorf("%d lines of the audit log are lost: %w", n, err)
	}
	return nil
}

// buffered gathers lines and writes them at once.
type buffered struct {
	to    io.Writer
	text  bytes.Buffer
	lines int // in text
	line  func(e *Event)
	lost  int   // lines since the last Flush
	err   error // why
}

// gatheredTextMax is how much text is gathered: one multi may be tens of thousands of lines, each with all users of its
// client. A buffer up to keptBytes is kept for the next lines.
const (
	gatheredTextMax = 1 << 20
	keptBytes       = 256 << 10
)

// Write holds e's line back.
func (b *buffered) Write(e *Event) {
	b.line(e)
	b.lines++
	if b.text.Len() > gatheredTextMax {
		b.write()
	}
}

// write writes the lines with one call.
func (b *buffered) write() {
	if b.lines == 0 {
		return
	}
	if _, err := b.to.Write(b.text.Bytes()); err != nil {
		b.lost, b.err = b.lost+b.lines, err
	}
	b.lines = 0
	b.text.Reset()
}

// Flush writes what was held back.
func (b *buffered) Flush() error {
	b.write()
	if b.text.Cap() > keptBytes {
		b.text = bytes.Buffer{}
	}
	n, err := b.lost, b.err
	b.lost, b.err = 0, nil
	if err != nil {
		return fmt.Errorf("up to %d lines of the audit log are lost: %w", n, err)
	}
	return nil
}

// Format is how lines look in a file.
type Format string

// The formats: of slog as text, of slog as JSON, and the lines that ZooKeeper's own settings of its logger make
// (conf/logback.xml), which existing parsers read.
const (
	FormatText      Format = "text"
	FormatJSON      Format = "json"
	FormatZooKeeper Format = "zookeeper"
)

// javaTime is the ISO8601 of logback: local time, milliseconds behind a comma.
const javaTime = "2006-01-02 15:04:05,000"

// javaLogger is what %c{2} of logback makes of the name of org.apache.zookeeper.audit.Slf4jAuditLogger.
const javaLogger = "o.a.z.a.Slf4jAuditLogger"

// ToWriter returns a Sink that writes lines of a format to w, one call for all that has gathered, up to a megabyte.
func ToWriter(w io.Writer, f Format) Sink {
	b := &buffered{to: w}
	var records Sink
	switch f {
	case FormatJSON:
		records = ToHandler(slog.NewJSONHandler(&b.text, nil))
	case FormatZooKeeper:
		b.line = func(e *Event) {
			b.text.WriteString(e.Time.Format(javaTime))
			b.text.WriteByte(' ')
			b.text.WriteString(e.level().String())
			b.text.WriteString(" " + javaLogger + ": ")
			b.text.Write(append(e.appendLine(b.text.AvailableBuffer()), '\n'))
		}
		return b
	default:
		records = ToHandler(slog.NewTextHandler(&b.text, nil))
	}
	b.line = records.Write
	return b
}
