package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"zkd/conf"
	"zkd/server/instance/peers"
	"zkd/storage/datadir"
	"zkd/storage/space"
)

// The levels of findings.
const (
	levelError   = "error"   // the server would not start, or must not
	levelWarning = "warning" // it starts, and somebody should look
	levelNotice  = "notice"
	levelOK      = "ok"
)

// What a disk and a certificate should have left, and how long may be waited for an answer; guesses but for the first.
const (
	diskBytesMin       = 64 << 10 // with less not even empty stores are made; tried
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
whether the two fit together and belong to this server; an import that the start would begin with, which is tried in
memory if it is not too large; room on the disks, logins, all ports, names and certificates.

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
		agreed := r.data(ctx, c)
		r.disks(c)
		r.stores(c)
		r.logins(c)
		r.words(c)
		r.audit(c)
		r.proofs(c)
		r.names(ctx, c)
		if !r.Running {
			r.ports(ctx, c, agreed)
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
		fmt.Fprintf(&b, "%s: %s\n", f.Subject, oneLine(f.Message))
	}
	fmt.Fprintf(&b, "%s, %s\n", plural(r.Errors, "problem"), plural(r.Warnings, "warning"))
	_, err := io.WriteString(w, b.String())
	return err
}

// fail adds what is wrong: each of errors that were joined is a finding.
func (r *checkReport) fail(level, subject string, err error) {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // what wraps others says more than they
	if !ok || !strings.Contains(err.Error(), "\n") {
		r.add(level, subject, "%v", err)
		return
	}
	for _, one := range joined.Unwrap() {
		r.fail(level, subject, one)
	}
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
		case conf.NoticeUnknown, conf.NoticeNotBuilt, conf.NoticeMismatch, conf.NoticeDuplicate, conf.NoticeUseless:
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

// disks looks at the room and the rights of the directories.
func (r *checkReport) disks(c *conf.Config) {
	dirs := []string{c.Storage.DataDir}
	keys := []string{"dataDir", "dataLogDir"}
	if c.Storage.DataLogDir != c.Storage.DataDir {
		dirs = append(dirs, c.Storage.DataLogDir)
	}
	var onKeys, on []string // that can be there
	for n, dir := range dirs {
		at := existing(dir)
		if info, err := os.Stat(at); err == nil && !info.IsDir() {
			r.add(levelError, keys[n], "%s cannot be there: %s is a file", dir, at)
			continue
		}
		r.others(keys[n], dir)
		if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
			r.add(levelError, keys[n], "user %d may not write in %s: %v", os.Geteuid(), at, err)
		}
		onKeys, on = append(onKeys, keys[n]), append(on, dir)
	}
	r.rooms(c, onKeys, on)
}

// rooms looks at the room on the disks of directories, of which the last one has the raft log, as a server does that
// starts. Each disk is told of once.
func (r *checkReport) rooms(c *conf.Config, keys, dirs []string) {
	there := make([]string, len(dirs))
	for n, dir := range dirs {
		there[n] = existing(dir)
	}
	guard := space.New(space.Options{FS: vfs.Default, Dirs: there, ReserveBytes: c.Storage.DiskReserveBytes})
	volumes := guard.Assess()
	for n := range volumes {
		needed := dirs[0]
		if n == len(volumes)-1 {
			needed = dirs[len(dirs)-1]
		}
		least := space.LeastToOpen(vfs.Default, filepath.Join(needed, datadir.RaftLogName))
		r.room(keys[slices.Index(there, volumes[n].Dir)], &volumes[n], least)
	}
}

// room looks at the room of a disk, of which a start may need some. Of what is free a server that starts has its
// reserve, too.
func (r *checkReport) room(key string, v *space.Volume, leastBytes int64) {
	free, room := fmt.Sprintf("%d MiB (%d %%)", v.FreeBytes>>20, v.Percent()), v.FreeBytes+v.ReserveBytes
	switch {
	case v.TotalBytes == 0:
		r.add(levelWarning, key, "cannot tell the room on the disk of %s: look whether it is enough", v.Dir)
	case room < diskBytesMin && !r.Running:
		r.add(levelError, key, "nothing is free on the disk of %s: make room there", v.Dir)
	case room < leastBytes && !r.Running:
		r.add(levelWarning, key, "%s are free on the disk of %s, and a start may need %d MiB: make room there", free,
			v.Dir, leastBytes>>20)
	case v.Level >= space.Low:
		r.add(levelWarning, key, "%s are free on the disk of %s, which is low: where most servers have no more, "+
			"writes that grow are refused: make room there", free, v.Dir)
	case v.Percent() < space.WarnPercent:
		r.add(levelWarning, key, "%s are free on the disk of %s, less than %d %%: make room there", free, v.Dir,
			space.WarnPercent)
	default:
		r.add(levelOK, key, "%s are free on the disk of %s", free, v.Dir)
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

// proofs looks at what servers of an ensemble prove to each other.
func (r *checkReport) proofs(c *conf.Config) {
	if !c.Ensemble.Distributed {
		return
	}
	if file := c.Ensemble.SecretFile; file != "" {
		if _, err := peers.ReadSecrets(osFiles{}, file); err != nil {
			r.fail(levelError, "zkd.quorum.secretFile", err)
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
