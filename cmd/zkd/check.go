package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"zkd/conf"
	"zkd/quorum"
	"zkd/quorum/clock"
	"zkd/server/instance"
	"zkd/server/instance/peers"
	"zkd/storage/datadir"
	"zkd/storage/inspect"
	"zkd/storage/raftlog"
	"zkd/storage/schema"
)

// The levels of findings.
const (
	levelError   = "error"   // the server would not start, or must not
	levelWarning = "warning" // it starts, and somebody should look
	levelNotice  = "notice"
	levelOK      = "ok"
)

// What a disk and a certificate should have left; guesses.
const (
	diskBytesMin       = 64 << 20 // a flush and a turn of the write-ahead log
	diskBytesLow       = 1 << 30
	certificateSoon    = 30 * 24 * time.Hour
	resolveTimeout     = 2 * time.Second
	listenCheckTimeout = 5 * time.Second
)

// finding is one thing that zkd check has to say.
type finding struct {
	Level   string `json:"level"`
	Subject string `json:"subject"` // a key, a directory, a port
	Source  string `json:"source,omitempty"`
	Message string `json:"message"`
	Nearest string `json:"nearest,omitempty"` // the known key that an unknown one resembles
}

// checkReport is all of it.
type checkReport struct {
	Findings []finding `json:"findings"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Running  bool      `json:"running"` // a server runs on the data directory: data and ports were not looked at
}

// add adds a finding.
func (r *checkReport) add(level, subject, format string, args ...any) {
	r.put(&finding{Level: level, Subject: subject, Message: fmt.Sprintf(format, args...)})
}

// put adds a finding.
func (r *checkReport) put(f *finding) {
	r.Findings = append(r.Findings, *f)
	switch f.Level {
	case levelError:
		r.Errors++
	case levelWarning:
		r.Warnings++
	}
}

// newCheckCommand returns the command that looks before a start.
func newCheckCommand() *cobra.Command {
	var (
		set     []string
		dataDir string
		output  outputFlag
	)
	cmd := &cobra.Command{
		Use:   "check [zoo.cfg]",
		Short: "Check configuration, data, disk, ports and certificates before a start",
		Long: `Check what zkd serve would start with, and change nothing: every value of the configuration, and what
it asks for that zkd has not; the data directory, whose raft log is read and verified whole and whose state is opened;
whether the two fit together and belong to this server; room on the disks, the ports, names and certificates.

While a server runs on the data directory the command says so, and leaves data and ports out.

Exit status: 0 the server would start (there may be warnings), or runs already; 1 it would not, because of data, disk,
ports or certificates; 2 the configuration is wrong, or asks for what zkd has not.`,
		Example: `  zkd check /etc/zookeeper/zoo.cfg
  zkd check zoo.cfg --output json | jq '.findings[] | select(.level == "error")'`,
		Args: oneOptional(),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags, err := keyValues(set)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("data-dir") {
				flags["dataDir"] = dataDir
			}
			r := &checkReport{Findings: []finding{}}
			outcome := r.check(cmd.Context(), configSources(flags, args))
			return errors.Join(output.write(cmd.OutOrStdout(), r, r.text), outcome)
		},
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "set a `key=value` of zoo.cfg; may be repeated")
	cmd.Flags().StringVar(&dataDir, "data-dir", "./zkd-data", "where the data lives (dataDir)")
	output.addTo(cmd)
	return cmd
}

// check checks everything. Its error is the exit status.
func (r *checkReport) check(ctx context.Context, sources conf.Sources) error {
	c := r.configuration(sources)
	if c != nil {
		r.data(c)
		r.disks(c)
		r.certificates(c)
		r.proofs(c)
		r.names(ctx, c)
		if !r.Running {
			r.ports(ctx, c)
		}
	}
	switch {
	case c == nil:
		return usageError{fmt.Errorf("the configuration is wrong: %s", plural(r.Errors, "problem"))}
	case r.Errors > 0 && len(c.Unsupported()) > 0:
		return usageError{fmt.Errorf("the configuration asks for what this version has not: %s",
			plural(r.Errors, "problem"))}
	case r.Errors > 0:
		return fmt.Errorf("the server would not start: %s", plural(r.Errors, "problem"))
	}
	return nil
}

// text writes the findings for people, one a line.
func (r *checkReport) text(w io.Writer) error {
	var b strings.Builder
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(&b, "%-7s  ", f.Level)
		if f.Source != "" {
			fmt.Fprintf(&b, "%s: ", f.Source)
		}
		fmt.Fprintf(&b, "%s: %s\n", f.Subject, f.Message)
	}
	fmt.Fprintf(&b, "%s, %s\n", plural(r.Errors, "problem"), plural(r.Warnings, "warning"))
	_, err := io.WriteString(w, b.String())
	return err
}

// plural is a count of things.
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// configuration checks the configuration and returns it, nil if it cannot be used.
func (r *checkReport) configuration(sources conf.Sources) *conf.Config {
	c, err := conf.Load(sources)
	var problems conf.Errors
	switch {
	case errors.As(err, &problems):
		for _, p := range problems {
			message := p.Allowed
			if p.Value != "" {
				message = fmt.Sprintf("%q: %s", p.Value, p.Allowed)
			}
			r.put(&finding{Level: levelError, Subject: p.Key, Source: p.Source, Message: message})
		}
		return nil
	case err != nil:
		r.add(levelError, "configuration", "%v", err)
		return nil
	}
	for _, n := range c.Notices {
		level := levelNotice
		switch n.Kind {
		case conf.NoticeUnknown, conf.NoticeNotBuilt, conf.NoticeMismatch, conf.NoticeDuplicate:
			level = levelWarning
		case conf.NoticeIgnored, conf.NoticeOverridden, conf.NoticeAdjusted, conf.NoticeAdvice:
		}
		r.put(&finding{Level: level, Subject: n.Key, Source: n.Source, Message: n.Message, Nearest: n.Nearest})
	}
	for _, p := range c.Unsupported() {
		r.put(&finding{Level: levelError, Subject: p.Key, Source: p.Source, Message: p.Allowed})
	}
	if e := &c.Ensemble; e.Distributed {
		r.add(levelOK, "myid", "server %d of the %d that the server lines name", e.MyID, len(e.Members))
	} else if r.Errors == 0 {
		r.add(levelOK, "configuration", "a server that stands alone")
	}
	return c
}

// data looks at the data directory.
func (r *checkReport) data(c *conf.Config) {
	dir := c.Storage.DataDir
	i, err := inspect.Open(datadir.Options{Dir: dir, LogDir: c.Storage.DataLogDir, FS: vfs.Default,
		Logger: slog.New(slog.DiscardHandler)})
	switch {
	case errors.Is(err, inspect.ErrNoData):
		r.noData(c, err)
		return
	case errors.Is(err, inspect.ErrRunning):
		r.Running = true
		r.add(levelNotice, "dataDir", "%v: data and ports are not looked at", err)
		return
	case err != nil:
		r.add(levelError, "dataDir", "%v", err)
		return
	}
	defer i.Close() //nolint:errcheck // it gives locks back, which end with the process at the latest
	r.add(levelOK, "dataDir", "%s is a data directory of zkd, format %d", dir, i.Format())
	described, last, ok := r.log(i, c)
	if !ok {
		return
	}
	state, err := i.OpenState()
	if errors.Is(err, inspect.ErrNoData) {
		r.add(levelOK, "state", "there is none yet")
		return
	}
	if err != nil {
		r.add(levelError, "state", "%v", err)
		return
	}
	info := state.Info()
	if err := state.Close(); err != nil {
		r.add(levelError, "state", "%v", err)
		return
	}
	r.fit(&info, described, last, i)
	r.compareMembers(&info, c)
}

// noData says what a start without data comes to.
func (r *checkReport) noData(c *conf.Config, found error) {
	_, err := os.Stat(c.Storage.DataDir)
	if !c.Storage.AutocreateDataDir && errors.Is(err, os.ErrNotExist) {
		r.add(levelError, "dataDir", "%v: mount its disk, or make the directory: datadir.autocreate is false", found)
		return
	}
	if r.mayBegin(c, found.Error()) {
		r.add(levelOK, "dataDir", "%v: the server makes it, and begins empty", found)
	}
}

// mayBegin reports whether the server would begin with an empty tree, and says why it would not.
func (r *checkReport) mayBegin(c *conf.Config, found string) bool {
	begins, err := peers.MayBeginEmpty(c, osFiles{})
	switch {
	case err != nil:
		r.add(levelError, "dataDir", "%v", err)
	case !begins:
		r.add(levelWarning, "dataDir", "%s: db.autocreate is false, so the server waits for an ensemble to join", found)
	}
	return begins
}

// log looks at the raft log.
func (r *checkReport) log(i *inspect.Dir, c *conf.Config) (d quorum.LogInfo, indexes [2]uint64, ok bool) {
	log, err := i.OpenLog()
	if errors.Is(err, inspect.ErrNoData) {
		r.add(levelOK, "raftlog", "there is none yet")
		return d, indexes, false
	}
	if err != nil {
		r.add(levelError, "raftlog", "%v", err)
		return d, indexes, false
	}
	empty := peers.IsEmpty(log)
	d, err = quorum.DescribeLog(log)
	indexes = [2]uint64{log.FirstIndex(), log.LastIndex()}
	if err = errors.Join(err, log.Close()); err != nil {
		r.add(levelError, "raftlog", "%v", err)
		return d, indexes, false
	}
	entries := fmt.Sprintf("entries %d to %d", indexes[0], indexes[1])
	if indexes[1] < indexes[0] {
		entries = "no entries yet"
	}
	r.add(levelOK, "raftlog", "%s, all whole, nothing acknowledged is missing; %d MiB", entries,
		instance.DirBytes(vfs.Default, i.RaftLogDir())>>20)
	if empty {
		r.mayBegin(c, "the raft log has no entries")
	}
	id := instance.ServerID(c)
	if d.Member != 0 && d.Member != id {
		r.add(levelError, "myid", "the data is of server %d, and this is server %d: correct myid or dataDir", d.Member,
			id)
	}
	if d.Installing {
		r.add(levelNotice, "state", "the server was stopped while it took over the state of another one: it goes on")
	}
	return d, indexes, true
}

// fit tells whether state and log belong together.
func (r *checkReport) fit(info *schema.Summary, d quorum.LogInfo, log [2]uint64, i *inspect.Dir) {
	const remedy = "put back the one that belongs to the other, or restore a backup"
	applied := info.Index
	switch {
	case d.Installing:
		return
	case d.Imported && log[1] == 0 && applied == raftlog.ImportedIndex: // not started since
	case applied > log[1]:
		r.add(levelError, "state", "it has entry %d and the raft log ends at %d: %s", applied, log[1], remedy)
		return
	case max(applied, 1)+1 < log[0]:
		r.add(levelError, "state", "it has entry %d and the raft log begins at %d: %s", applied, log[0], remedy)
		return
	}
	r.add(levelOK, "state", "zxid %#x, %d znodes, %d sessions, digest %#x; %d MiB; the start applies %d entries again",
		int64(info.Zxid), info.Znodes, info.Sessions, info.Digest, instance.DirBytes(vfs.Default, i.StateDir())>>20,
		log[1]-min(applied, log[1]))
}

// compareMembers tells when the server lines are not the members.
func (r *checkReport) compareMembers(info *schema.Summary, c *conf.Config) {
	if info.Config == "" || !c.Ensemble.Distributed {
		return
	}
	lines := map[string]bool{}
	for line := range strings.Lines(info.Config) {
		if name, _, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, "server.") {
			lines[name] = true
		}
	}
	same := len(lines) == len(c.Ensemble.Members)
	for i := range c.Ensemble.Members {
		same = same && lines[fmt.Sprintf("server.%d", c.Ensemble.Members[i].ID)]
	}
	if !same {
		r.add(levelWarning, "server.N", "the ensemble has %d members, and the lines name %d: the lines change "+
			"nothing, use reconfig, or correct them", len(lines), len(c.Ensemble.Members))
	}
}

// disks looks at the room and the rights of the directories.
func (r *checkReport) disks(c *conf.Config) {
	dirs := []string{c.Storage.DataDir}
	keys := []string{"dataDir", "dataLogDir"}
	if c.Storage.DataLogDir != c.Storage.DataDir {
		dirs = append(dirs, c.Storage.DataLogDir)
	}
	for n, dir := range dirs {
		at := existing(dir)
		r.others(keys[n], dir)
		if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
			r.add(levelError, keys[n], "user %d may not write in %s: %v", os.Geteuid(), at, err)
		}
		free, err := diskFree(at)
		switch {
		case err != nil:
			r.add(levelWarning, keys[n], "cannot tell the room on the disk of %s: %v", at, err)
		case free < diskBytesMin:
			r.add(levelError, keys[n], "%d MiB are free on the disk of %s: free some there", free>>20, at)
		case free < diskBytesLow:
			r.add(levelWarning, keys[n], "%d MiB are free on the disk of %s", free>>20, at)
		default:
			r.add(levelOK, keys[n], "%d GiB are free on the disk of %s", free>>30, at)
		}
	}
}

// others tells if users who are neither the owner of dir nor of its group may look into it.
func (r *checkReport) others(key, dir string) {
	info, err := os.Stat(dir)
	if err != nil || !datadir.OpenToOthers(info.Mode()) { // what is missing the server makes for itself alone
		return
	}
	r.add(levelWarning, key, "other users of this machine may look into %s, which has mode %#o: chmod o-rwx %s", dir,
		info.Mode().Perm(), dir)
}

// existing is dir, or the nearest directory above that is there.
func existing(dir string) string {
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// ports tries whether the server could listen.
func (r *checkReport) ports(ctx context.Context, c *conf.Config) {
	addresses := map[string][]string{"clientPort": {c.Client.Addr}, "secureClientPort": {c.Client.SecureAddr}}
	if c.Ensemble.Distributed {
		addresses["server.N"] = c.Ensemble.Listen
	}
	ctx, cancel := context.WithTimeout(ctx, listenCheckTimeout)
	defer cancel()
	for _, key := range []string{"clientPort", "secureClientPort", "server.N"} {
		for _, addr := range addresses[key] {
			if addr == "" || strings.HasSuffix(addr, ":0") {
				continue
			}
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
			if err != nil {
				r.add(levelError, key, "cannot listen: %v", err)
				continue
			}
			_ = l.Close() // nobody has come
			r.add(levelOK, key, "%s is free", addr)
		}
	}
}

// names looks up the other members.
func (r *checkReport) names(ctx context.Context, c *conf.Config) {
	if !c.Ensemble.Distributed {
		return
	}
	for i := range c.Ensemble.Members {
		m := &c.Ensemble.Members[i]
		for _, a := range m.Addresses {
			lookup, cancel := context.WithTimeout(ctx, resolveTimeout)
			_, err := net.DefaultResolver.LookupHost(lookup, a.Host)
			cancel()
			if err != nil {
				r.add(levelWarning, fmt.Sprintf("server.%d", m.ID), "%s has no address now: %v", a.Host, err)
			}
		}
	}
}

// certificates opens the key and trust stores that are in use.
func (r *checkReport) certificates(c *conf.Config) {
	if c.Ensemble.Distributed && (c.TLS.QuorumEnabled || c.TLS.QuorumPortUnification) {
		r.certificate("ssl.quorum.", c.TLS.Quorum)
	}
	if c.Client.SecureAddr != "" || c.Client.PortUnification {
		r.certificate("ssl.", c.TLS.Client)
	}
}

// certificate opens the stores of one kind of connections.
func (r *checkReport) certificate(prefix string, end conf.TLSEnd) {
	key := prefix + "keyStore.location"
	set, err := realStores().Open(end, prefix, false)
	if err != nil {
		r.add(levelError, key, "%v", err)
		return
	}
	for _, w := range set.Warnings() {
		r.add(levelWarning, prefix+"*", "%s", w)
	}
	until := set.NotAfter()
	level := levelOK
	if until.Sub(clock.Real().Now()) < certificateSoon {
		level = levelWarning
	}
	r.add(level, key, "the certificate is valid until %s", until.UTC().Format(time.DateOnly))
}

// proofs looks at what servers of an ensemble prove to each other.
func (r *checkReport) proofs(c *conf.Config) {
	if !c.Ensemble.Distributed {
		return
	}
	if file := c.Ensemble.SecretFile; file != "" {
		if _, err := peers.ReadSecrets(osFiles{}, file); err != nil {
			r.add(levelError, "zkd.quorum.secretFile", "%v", err)
		}
	}
	if peers.Guarded(c) {
		return
	}
	for _, address := range c.Ensemble.Listen {
		host, _, _ := net.SplitHostPort(address)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			r.add(levelWarning, "server.N", "whoever reaches %s may claim to be a server of the ensemble: set "+
				"zkd.quorum.secretFile or sslQuorum", address)
		}
	}
}
