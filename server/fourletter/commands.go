package fourletter

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
)

// Texts of ZooKeeper.
const (
	notServing     = "This ZooKeeper instance is not currently serving requests"
	notWhitelisted = " is not executed because it is not in the whitelist.\n"
)

// defaultTraceMask is the mask of a fresh server (org.apache.zookeeper.server.ZooTrace).
const defaultTraceMask = 306

// Options sets up Commands.
type Options struct {
	// Whitelist is the value of 4lw.commands.whitelist; ZooKeeper's default is "srvr".
	Whitelist string
	// ReadOnlyMode is readonlymode.enabled.
	ReadOnlyMode bool
	// Version is the full version text, see FullVersion.
	Version string
}

// Commands answers commands. Safe for use by many goroutines.
type Commands struct {
	version   string
	enabled   whitelist
	unknown   []string
	traceMask atomic.Int64 // shown and set, without any effect, as tools expect
}

// New returns the commands of a server.
func New(o Options) *Commands {
	c := &Commands{version: o.Version}
	c.enabled, c.unknown = parseWhitelist(o.Whitelist, o.ReadOnlyMode)
	c.traceMask.Store(defaultTraceMask)
	return c
}

// Unknown returns what the whitelist names and what is no command, for a warning.
func (c *Commands) Unknown() []string { return c.unknown }

// Version returns the full version text.
func (c *Commands) Version() string { return c.version }

// TraceMask returns the mask that gtmk shows.
func (c *Commands) TraceMask() int64 { return c.traceMask.Load() }

// SetTraceMask is stmk.
func (c *Commands) SetTraceMask(mask int64) { c.traceMask.Store(mask) }

// Enabled reports whether the command is answered, and not refused.
func (c *Commands) Enabled(w Command) bool { return slices.Contains(c.enabled, w) }

// Answer writes the answer to a command; the caller then closes the connection. argument is what follows the command,
// of ArgumentBytes: stmk without all of it gets no answer. The error is the writer's.
func (c *Commands) Answer(to io.Writer, w Command, argument []byte, info *Info) error {
	p := &page{out: bufio.NewWriter(to)}
	if !c.Enabled(w) {
		p.str(w.String(), notWhitelisted)
	} else {
		c.run(p, w, argument, info)
	}
	if err := p.out.Flush(); err != nil {
		return fmt.Errorf("write the answer to %s: %w", w, err)
	}
	return nil
}

// answers are the commands that need a running server.
var answers = map[Command]func(c *Commands, p *page, info *Info){
	Conf: (*Commands).conf,
	Cons: (*Commands).cons,
	Crst: (*Commands).crst,
	Dirs: (*Commands).dirs,
	Dump: (*Commands).dump,
	Hash: (*Commands).hash,
	Mntr: (*Commands).mntr,
	Srst: (*Commands).srst,
	Srvr: (*Commands).srvr,
	Stat: (*Commands).stat,
	Wchc: (*Commands).wchc,
	Wchp: (*Commands).wchp,
	Wchs: (*Commands).wchs,
}

// run writes the answer to a command that is enabled.
func (c *Commands) run(p *page, w Command, argument []byte, info *Info) {
	switch w {
	case Ruok:
		p.str("imok")
	case Isro:
		p.str(readOnlyText(info))
	case Envi:
		c.envi(p, info)
	case Gtmk:
		p.num(c.traceMask.Load())
	case Stmk:
		if len(argument) >= 8 {
			mask := int64(binary.BigEndian.Uint64(argument))
			c.traceMask.Store(mask)
			p.num(mask)
		}
	default:
		answer, ok := answers[w]
		if !ok { // TelnetClose has no answer
			return
		}
		if info.Serving {
			answer(c, p, info)
			return
		}
		p.str(notServing)
		if w != Hash { // Quirk: DigestCommand prints it without an end of line.
			p.str("\n")
			if info.MissingVoters != "" {
				p.str(info.MissingVoters, "\n")
			}
		}
	}
}

// readOnlyText is the answer to isro.
func readOnlyText(info *Info) string {
	switch {
	case !info.Serving:
		return "null"
	case info.ReadOnly:
		return "ro"
	}
	return "rw"
}
