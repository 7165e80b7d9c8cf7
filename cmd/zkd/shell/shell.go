package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"zkd/jute"
	"zkd/jute/client/session"
	"zkd/quorum/clock"
)

// Exit statuses of zkCli, and one of ours: what a shell says of a program that was interrupted.
const (
	statusFailed      = 1
	statusUnknown     = 127 // no such command
	statusInterrupted = 130
)

// Options are what a Shell is handed.
type Options struct {
	Connect string // host:port,… with a chroot behind
	Timeout time.Duration
	Wait    bool // -waitforconnection
	JSON    bool // results as JSON
	Quiet   bool // nothing of connections, and no events unless they are asked for

	// Open opens a session with this OnEvent and this OnTrouble.
	Open func(connect string, onEvent func(session.Event), onTrouble func(string, error)) (*session.Session, error)
	// SASL says that sessions log in by SASL, which zkCli tells of.
	SASL bool

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Interactive    bool // a person types at a terminal, and Stdin is not read
	Terminal       bool // whether Stdout is one
	Color          bool

	Clock   clock.Clock
	Zone    *time.Location
	Getenv  func(string) string
	Version string // what the command version says
	// Interrupt returns a context that ends when the user wants a command to end.
	Interrupt func(context.Context) (context.Context, context.CancelFunc)
}

// Shell runs commands. It is for one goroutine.
type Shell struct {
	o        Options
	session  *session.Session // nil before the first one
	host     string
	out, err *printer
	commands map[string]*command

	history      map[int]string
	count        int // of commands so far
	printWatches bool
	silent       bool   // events are not printed any more, or not at all; guarded by out
	trouble      string // that was told last; guarded by out
	status       int
	quit         bool
	hooks        hooks
}

// call is one command that runs.
type call struct {
	*Shell
	*parsed

	ctx     context.Context //nolint:containedctx // a call is over when its command is
	command *command
	line    []string // as it was typed; the command first
}

// New returns a shell. It connects to nothing yet.
func New(o Options) *Shell {
	lock := new(lock)
	s := &Shell{o: o, history: map[int]string{}, printWatches: true,
		out:      &printer{lock: lock, w: bufio.NewWriterSize(o.Stdout, outBytes), terminal: o.Terminal},
		err:      &printer{lock: lock, w: bufio.NewWriter(o.Stderr), terminal: o.Terminal},
		commands: map[string]*command{}}
	s.silent = s.quiet()
	for _, c := range slices.Concat(zkCommands(), ownCommands()) {
		s.commands[c.name] = c
	}
	return s
}

// Run runs the command in args, or all of a session if there is none, and returns the exit status.
func (s *Shell) Run(ctx context.Context, args []string) int {
	defer s.end()
	s.say("Connecting to " + s.o.Connect)
	if err := s.connect(ctx, s.o.Connect); err != nil {
		s.err.print(err.Error() + "\n")
		return statusFailed
	}
	if len(args) > 0 {
		s.process(ctx, args)
		return s.status
	}
	s.read(ctx)
	return s.status
}

// What zkCli says of the library that it edits lines with: that it is there, and at the end of what it reads from a
// pipe that it is not.
const (
	withEditor    = "JLine support is enabled"
	withoutEditor = "JLine support is disabled"
)

// settleWithin is how long the first prompt waits for a connection, so that it says CONNECTED, and how long an end of
// the session waits for its beginning. A guess: zkCli takes as long until it has made its reader.
const settleWithin = 500 * time.Millisecond

// settle waits a while for a connection.
func (s *Shell) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	_ = s.session.Await(ctx) // the prompt says what came of it
}

// quiet tells whether nothing but results is printed.
func (s *Shell) quiet() bool { return s.o.Quiet || s.o.JSON }

// say prints a line about the session, which is no result.
func (s *Shell) say(line string) {
	if !s.quiet() {
		s.out.print(line + "\n")
	}
}

// end closes the session; nobody is told of it.
func (s *Shell) end() {
	s.setSilent()
	if s.session != nil {
		s.close()
	}
	s.out.flush()
	s.err.flush()
}

func (s *Shell) setSilent() {
	s.out.lock.Lock()
	defer s.out.lock.Unlock()
	s.silent = true
}

// closeWithin bounds the goodbye. A guess: the session expires by itself.
const closeWithin = 2 * time.Second

func (s *Shell) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	s.session.Close(ctx)
}

// connect begins a session, in the place of the one that there is.
func (s *Shell) connect(ctx context.Context, connect string) error {
	if s.session != nil && !s.session.State().Ended() {
		s.close()
	}
	opened, err := s.o.Open(connect, s.onEvent, s.onTrouble)
	if err != nil {
		return err
	}
	s.session, s.host = opened, connect
	if !s.o.Wait {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	if err := opened.Await(ctx); err != nil {
		return fmt.Errorf("%s: %w", keeperMessage(jute.ConnectionLoss, ""), err)
	}
	return nil
}

// read runs the lines of a person or a pipe.
func (s *Shell) read(ctx context.Context) {
	s.say("Welcome to ZooKeeper!")
	s.out.flush()
	s.settle(ctx)
	var next func() (string, error)
	if s.o.Interactive {
		e, err := newEditor(ctx, s)
		if err != nil {
			s.err.print(err.Error() + "\n")
			s.status = statusFailed
			return
		}
		defer e.close()
		next = e.line
	} else {
		s.say(withEditor)
		lines := bufio.NewReader(s.o.Stdin)
		next = func() (string, error) {
			if !s.quiet() {
				s.out.print(s.prompt())
			}
			line, err := nextLine(lines)
			if err != nil {
				s.say(withoutEditor)
			}
			return line, err
		}
	}
	for !s.quit && ctx.Err() == nil {
		s.out.flush()
		line, err := next()
		switch {
		case errors.Is(err, errGivenUp):
			continue
		case err != nil:
			return
		}
		s.execute(ctx, line)
	}
}

// nextLine returns a line without its end; the last one may have none.
func nextLine(from *bufio.Reader) (string, error) {
	line, err := from.ReadString('\n')
	if err != nil && line == "" {
		return "", err
	}
	line = strings.TrimSuffix(line, "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

// prompt is zkCli's.
func (s *Shell) prompt() string {
	state := map[session.State]string{session.Connecting: "CONNECTING", session.Connected: "CONNECTED",
		session.ConnectedReadOnly: "CONNECTEDREADONLY", session.AuthFailed: "AUTH_FAILED"}[s.session.State()]
	if state == "" {
		state = "CLOSED"
	}
	return fmt.Sprintf("[zk: %s(%s) %d] ", s.host, state, s.count)
}

// execute is ZooKeeperMain.executeLine.
func (s *Shell) execute(ctx context.Context, line string) {
	if line == "" {
		return
	}
	s.history[s.count] = line
	ctx, stop := s.o.Interrupt(ctx)
	defer stop()
	s.process(ctx, words(line))
	s.count++
}

// process is ZooKeeperMain.processCmd: it runs a command and keeps its exit status.
func (s *Shell) process(ctx context.Context, line []string) {
	err := s.run(ctx, line)
	s.status = 0
	if err != nil {
		s.status = statusFailed
		if f := (failure{}); errors.As(err, &f) && f.status != 0 {
			s.status = f.status
		}
		text := err.Error()
		if ctx.Err() != nil {
			s.status, text = statusInterrupted, "interrupted"
		}
		s.out.flush()
		if text != "" {
			s.err.print(s.shown(text) + "\n")
		}
	}
	s.out.flush()
	s.err.flush()
}

// run is ZooKeeperMain.processZKCmd.
func (s *Shell) run(ctx context.Context, line []string) error {
	if len(line) == 0 {
		s.usage()
		return failed("No command entered")
	}
	found := s.commands[line[0]]
	if found == nil {
		s.usage()
		return failure{text: "Command not found: Command not found " + line[0], status: statusUnknown}
	}
	c := &call{Shell: s, ctx: ctx, command: found, line: line}
	if found.local != nil {
		if err := found.local(c); err != nil || s.quit {
			return err
		}
	}
	if s.session.State().Ended() {
		s.out.print("Not connected\n")
		return nil
	}
	if found.run == nil {
		return nil
	}
	var err error
	if c.parsed, err = c.parse(found); err != nil {
		return err
	}
	return found.run(c)
}

// usage lists all commands, as zkCli does; those that zkCli has not come last.
func (s *Shell) usage() {
	var b strings.Builder
	b.WriteString("ZooKeeper -server host:port -client-configuration properties-file cmd args\n")
	list := func(own bool) {
		for _, name := range s.names() {
			if c := s.commands[name]; c.own == own {
				b.WriteString("\t" + name + " " + c.usage + "\n")
			}
		}
	}
	list(false)
	if s.o.Terminal {
		b.WriteString("zkd's own:\n")
		list(true)
	}
	s.err.print(b.String())
}

// Names returns those of the commands that begin with start.
func Names(start string) []string {
	var all []string
	for _, c := range slices.Concat(zkCommands(), ownCommands()) {
		if strings.HasPrefix(c.name, start) {
			all = append(all, c.name)
		}
	}
	slices.Sort(all)
	return all
}

// Help lists the commands with what they take.
func Help() string {
	var b strings.Builder
	for _, own := range []bool{false, true} {
		if own {
			b.WriteString("\nCommands that zkCli.sh has not:\n")
		}
		all := slices.Concat(zkCommands(), ownCommands())
		slices.SortFunc(all, func(a, b *command) int { return strings.Compare(a.name, b.name) })
		for _, c := range all {
			if c.own != own {
				continue
			}
			b.WriteString("  " + strings.TrimSpace(c.name+" "+c.usage) + "\n")
			if c.about != "" {
				b.WriteString("      " + c.about + "\n")
			}
		}
	}
	return b.String()
}

// names are those of all commands.
func (s *Shell) names() []string {
	var all []string
	for name := range s.commands { // order: sorted below
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// asError is errors.As, of which the linters want no pointer to a pointer in line.
func asError[T error](err error, target *T) bool { return errors.As(err, target) }
