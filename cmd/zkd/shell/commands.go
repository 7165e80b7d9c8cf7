package shell

import (
	"slices"
	"strconv"
	"strings"

	"zkd/jute/client/session"
)

// command is a row of the table of commands.
type command struct {
	name, usage string
	about       string // one line, for help
	options     optionSet
	detailed    bool // wrong use prints the options, too
	least       int  // words besides the command; fewer are wrong use
	plain       bool // the words are not looked at for options
	own         bool // zkCli has it not
	paths       bool // its words are paths, for completion
	// local does what needs no connection, before run, which may be nil.
	local func(*call) error
	run   func(*call) error
}

// flags makes options without arguments of their letters and texts.
func flags(pairs ...string) optionSet {
	var s optionSet
	for i := 0; i+1 < len(pairs); i += 2 {
		name, takes := strings.CutSuffix(pairs[i], ":")
		s.options = append(s.options, option{name: name, takes: takes, help: pairs[i+1]})
	}
	return s
}

// The usage of reconfig.
const reconfigUsage = "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | " +
	"[-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]"

// zkCommands are those of zkCli.sh 3.9, each with the options and the usage that it has there.
func zkCommands() []*command {
	quotas := func(takes string) optionSet {
		s := flags("n"+takes, "num soft quota", "b"+takes, "bytes soft quota", "N"+takes, "num hard quota",
			"B"+takes, "bytes hard quota")
		s.grouped, s.required = true, takes != ""
		return s
	}
	return []*command{
		{name: "addWatch", usage: "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - " +
			"default is PERSISTENT_RECURSIVE", options: flags("m:", ""), run: runAddWatch, paths: true},
		{name: "addauth", usage: "scheme auth", least: 1, run: runAddAuth},
		{name: "close", plain: true, run: runClose},
		{name: "config", usage: "[-c] [-w] [-s]", options: flags("s", "stats", "w", "watch",
			"c", "client connection string"), run: runConfig},
		{name: "connect", usage: "host:port", plain: true, local: runConnect},
		{name: "create", usage: "[-s] [-e] [-c] [-t ttl] path [data] [acl]", least: 1, run: runCreate, paths: true,
			options: flags("e", "ephemeral", "s", "sequential", "c", "container", "t:", "ttl")},
		{name: "delete", usage: "[-v version] path", options: flags("v:", "version"), least: 1, run: runDelete,
			paths: true},
		{name: "deleteall", usage: "path [-b batch size]", options: flags("b:", "batch size"), least: 1,
			run: runDeleteAll, paths: true},
		{name: "delquota", usage: "[-n|-b|-N|-B] path", options: quotas(""), least: 1, run: runDelQuota, paths: true},
		{name: "get", usage: "[-s] [-w] [-b] [-x] path", detailed: true, least: 1, run: runGet, paths: true,
			options: flags("s", "Print znode stats additionally", "w", "Watch for changes on the znode",
				"b", "Output data in base64 format", "x", "Output data in hexdump format")},
		{name: "getAcl", usage: "[-s] path", options: flags("s", "stats"), least: 1, run: runGetACL, paths: true},
		{name: "getAllChildrenNumber", usage: "path", least: 1, run: runGetAllChildrenNumber, paths: true},
		{name: "getEphemerals", usage: "path", run: runGetEphemerals, paths: true},
		{name: "history", plain: true, local: runHistory},
		{name: "listquota", usage: "path", least: 1, run: runListQuota, paths: true},
		{name: "ls", usage: "[-s] [-w] [-R] path", options: flags("?", "help", "s", "stat", "w", "watch", "R",
			"recurse"), run: runLs, paths: true},
		{name: "printwatches", usage: "on|off", plain: true, local: runPrintWatches},
		{name: "quit", plain: true, local: runQuit},
		{name: "reconfig", usage: reconfigUsage, run: runReconfig, options: flags("s", "stats",
			"v:", "required current config version", "file:", "path of config file to parse for membership",
			"members:", "comma-separated list of config strings for non-incremental reconfig",
			"add:", "comma-separated list of config strings for new servers",
			"remove:", "comma-separated list of server IDs to remove")},
		{name: "redo", usage: "cmdno", plain: true, local: runRedo},
		{name: "removewatches", usage: "path [-c|-d|-a] [-l]", least: 1, run: runRemoveWatches, paths: true,
			options: flags("c", "child watcher type", "d", "data watcher type", "p", "persistent watcher type",
				"r", "persistent recursive watcher type", "a", "any watcher type",
				"l", "remove locally when there is no server connection")},
		{name: "set", usage: "path data [-s] [-v version] [-b]", detailed: true, least: 2, run: runSet, paths: true,
			options: flags("s", "Print znode stats additionally", "v:", "Set with an expected version",
				"b", "Supply data in base64 format")},
		{name: "setAcl", usage: "[-s] [-v version] [-R] path acl", least: 2, run: runSetACL, paths: true,
			options: flags("s", "stats", "v:", "version", "R", "recursive")},
		{name: "setquota", usage: "-n|-b|-N|-B val path", options: quotas(":"), least: 1, run: runSetQuota,
			paths: true},
		{name: "stat", usage: "[-w] path", options: flags("w", "watch"), least: 1, run: runStat, paths: true},
		{name: "sync", usage: "path", least: 1, run: runSync, paths: true},
		{name: "version", run: runVersion},
		{name: "whoami", plain: true, run: runWhoAmI},
	}
}

// usageError is what wrong use prints.
func (c *command) usageError() error {
	text := c.name + " " + c.usage
	if c.detailed {
		text += c.options.help()
	}
	return failure{text: text}
}

// parse reads the words of a call.
func (c *call) parse(of *command) (*parsed, error) {
	if of.plain {
		return &parsed{args: c.line}, nil
	}
	p, err := of.options.parse(c.line)
	if err != nil {
		return nil, err
	}
	if len(p.args)-1 < of.least {
		return nil, of.usageError()
	}
	return p, nil
}

// watchWord takes what was a watch in zkCli 3.4: a word behind the path. The third word becomes -w, whatever it was.
func (c *call) watchWord(usage string) error {
	if len(c.args) <= 2 {
		return nil
	}
	c.err.print("'" + c.command.name + " path [watch]' has been deprecated. Please use '" + usage + "' instead.\n")
	c.line = slices.Clone(c.line)
	c.line[2] = "-w"
	var err error
	c.parsed, err = c.command.options.parse(c.line)
	return err
}

// path is the first word, which must be a path.
func (c *call) path() (string, error) {
	if len(c.args) < 2 {
		return "", c.command.usageError()
	}
	return c.args[1], checkPath(c.args[1])
}

// number is the value of an option.
func (c *call) number(name string, none int64, bits int) (int64, error) {
	text, given := c.values[name]
	if !given {
		return none, nil
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil { // zkCli ends with a stack trace
		return 0, failed("-%s wants a number, not %q", name, text)
	}
	return n, nil
}

func runConnect(c *call) error {
	host := c.host
	if len(c.line) > 1 {
		host = c.line[1]
	}
	return c.connect(c.ctx, host)
}

func runHistory(c *call) error {
	for i := max(c.count-10, 0); i <= c.count; i++ {
		line, ok := c.history[i]
		if !ok {
			line = "null"
		}
		c.Shell.line(strconv.Itoa(i) + " - " + line)
	}
	return nil
}

func runRedo(c *call) error {
	if len(c.line) < 2 {
		return nil
	}
	n, err := strconv.ParseInt(c.line[1], 0, 32)
	if err != nil {
		return failed("redo wants the number of a command, not %q", c.line[1])
	}
	line, ok := c.history[int(n)]
	if int(n) >= c.count || n < 0 || !ok {
		return failed("Command index out of range")
	}
	again := words(line)
	if len(again) > 0 && again[0] == "redo" {
		return failed("No redoing redos")
	}
	c.history[c.count] = line
	c.process(c.ctx, again)
	return nil
}

func runPrintWatches(c *call) error {
	c.out.lock.Lock()
	defer c.out.lock.Unlock()
	if len(c.line) > 1 {
		c.printWatches = c.line[1] == "on"
		return nil
	}
	text := "printwatches is off\n"
	if c.printWatches {
		text = "printwatches is on\n"
	}
	_, _ = c.out.w.WriteString(text) // as in printer.print
	return nil
}

func runQuit(c *call) error {
	c.quit = true
	c.settle(c.ctx)
	c.close()
	return nil
}

func runClose(c *call) error {
	c.settle(c.ctx)
	c.close()
	return nil
}

func runVersion(c *call) error {
	if len(c.args) > 1 {
		return c.command.usageError()
	}
	return c.emit(map[string]string{"version": c.o.Version}, func() {
		c.Shell.line("ZooKeeper CLI version: " + c.o.Version)
	})
}

func runWhoAmI(c *call) error {
	infos, err := c.session.WhoAmI(c.ctx)
	if err != nil && session.CodeOf(err) == 0 {
		return err
	}
	type identity struct {
		Scheme string `json:"scheme"`
		User   string `json:"user"`
	}
	all := []identity{}
	for _, info := range infos {
		all = append(all, identity{info.AuthScheme, info.User})
	}
	return c.emit(all, func() {
		c.Shell.line("Auth scheme: User")
		for _, one := range all {
			c.Shell.line(c.name(one.Scheme) + ": " + c.name(one.User))
		}
	})
}

func runAddAuth(c *call) error {
	var auth []byte
	if len(c.args) > 2 {
		auth = []byte(c.args[2])
	}
	err := c.session.AddAuth(c.ctx, c.args[1], auth)
	if session.CodeOf(err) != 0 {
		return nil // the event says it
	}
	return err
}
