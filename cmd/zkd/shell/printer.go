package shell

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"zkd/jute/client/session"
)

// outBytes is how much is gathered before it is written.
const outBytes = 64 << 10

// lock is held while something is printed: events come while a command prints.
type lock struct{ sync.Mutex }

// printer is a stream.
type printer struct {
	lock     *lock // shared by both streams
	w        *bufio.Writer
	terminal bool
}

// print writes text as it is. That a stream is gone is seen at its flush.
func (p *printer) print(text string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	_, _ = p.w.WriteString(text) // as above
}

func (p *printer) flush() {
	p.lock.Lock()
	defer p.lock.Unlock()
	_ = p.w.Flush() // whoever reads has gone: there is nobody to tell
}

// onEvent prints events as ZooKeeperMain's watcher does.
func (s *Shell) onEvent(e session.Event) {
	s.hooks.tell(e)
	s.out.lock.Lock()
	defer s.out.lock.Unlock()
	if s.silent || !s.printWatches {
		return
	}
	s.printEvent(eventText(e, s.shown))
	if s.o.SASL && e.Kind == session.EventState && e.State == session.Connected {
		s.printEvent("WatchedEvent state:SaslAuthenticated type:None path:null zxid: -1")
	}
	_ = s.out.w.Flush() // as in flush
}

// onTrouble tells a person why there is no connection, once as long as it is the same; and anybody why a login has
// failed. zkCli has it in its log.
func (s *Shell) onTrouble(address string, err error) {
	text := address + ": " + err.Error()
	s.out.lock.Lock()
	defer s.out.lock.Unlock()
	if text == s.trouble || !s.o.Terminal && !errors.Is(err, session.ErrLogin) {
		return
	}
	s.trouble = text
	_, _ = s.err.w.WriteString(s.paint(colorNote, s.shown(text)) + "\n") // as in print
	_ = s.err.w.Flush()                                                  // as in flush
}

func (s *Shell) printEvent(text string) {
	_, _ = s.out.w.WriteString("\nWATCHER::\n\n" + s.paint(colorEvent, text) + "\n") // as in print
}

// stateNames are those of Watcher.Event.KeeperState.
var stateNames = map[session.State]string{session.Connecting: "Disconnected", session.Connected: "SyncConnected",
	session.ConnectedReadOnly: "ConnectedReadOnly", session.Closed: "Closed", session.Expired: "Expired",
	session.AuthFailed: "AuthFailed"}

// eventText is WatchedEvent.toString.
func eventText(e session.Event, shown func(string) string) string {
	path := "null"
	if e.Kind != session.EventState {
		path = shown(e.Path)
	}
	return fmt.Sprintf("WatchedEvent state:%s type:%s path:%s zxid: %d", stateNames[e.State], eventType(e), path,
		e.Zxid)
}

// shown is text of a stranger's as it is printed: on a terminal without control characters, elsewhere as it is.
func (s *Shell) shown(text string) string {
	if !s.o.Terminal {
		return text
	}
	return escaped(text, true)
}

// escaped has no character that a terminal takes for anything but itself. lines keeps ends of lines and tabs.
func escaped(text string, lines bool) string {
	clean := true
	for i := 0; i < len(text) && clean; i++ {
		clean = text[i] >= ' ' && text[i] < 0x7f
	}
	if clean {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case lines && (r == '\n' || r == '\t'), unicode.IsPrint(r):
			b.WriteString(text[:n])
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default: // controls, bidirectional overrides, zero widths
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[n:]
	}
	return b.String()
}

// name is a path or another short text of a stranger's.
func (s *Shell) name(text string) string {
	if !s.o.Terminal {
		return text
	}
	return escaped(text, false)
}

// valueBytesMax is how much of a value is shown on a terminal. A guess: some screens.
const valueBytesMax = 16 << 10

// value is the data of a znode; on a terminal a long one is cut, with a note.
func (s *Shell) value(text string) string {
	if !s.o.Terminal || len(text) <= valueBytesMax {
		return s.shown(text)
	}
	cut := text[:valueBytesMax]
	for len(cut) > 0 && !utf8.RuneStart(text[len(cut)]) {
		cut = cut[:len(cut)-1]
	}
	return s.shown(cut) + s.paint(colorNote, fmt.Sprintf("\n… cut: %d bytes in all; a pipe or > file gets them whole",
		len(text)))
}

// line prints a line to stdout.
func (s *Shell) line(text string) { s.out.print(text + "\n") }

// emit prints a result: v as JSON, or what text prints.
func (s *Shell) emit(v any, text func()) error {
	if !s.o.JSON {
		text()
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s.line(string(b))
	return nil
}

// color is the number of a colour (ECMA-48, SGR).
type color string

// What is coloured.
const (
	colorEvent  color = "36" // cyan
	colorNote   color = "33" // yellow
	colorNode   color = "34" // blue: one that has children
	colorOwned  color = "35" // magenta: an ephemeral
	colorBad    color = "31" // red
	colorGood   color = "32" // green
	colorFaint  color = "2"
	colorPrompt color = "1"
)

// paint colours text where that is wanted.
func (s *Shell) paint(c color, text string) string {
	if !s.o.Color || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}
