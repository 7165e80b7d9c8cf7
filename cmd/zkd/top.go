package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"zkd/cmd/zkd/terminal"
	"zkd/cmd/zkd/top"
	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/server/traffic/report"
)

// topFlags are what zkd top is told.
type topFlags struct {
	status      statusFlags // where servers are, and how their ports for clients are asked
	admins      []string
	adminPort   int
	credentials string
	once        bool
	interval    time.Duration
	shown       top.TextOptions
	output      outputFlag

	asker   *report.Asker
	targets []report.Target
	members followedMembers // who has given the targets; of none with --admin
}

// Bounds of --interval: the admin command top knows the last minute, second by second.
const (
	topIntervalMin = time.Second
	topIntervalMax = time.Minute
)

// newTopCommand returns the command that shows who does what.
func newTopCommand() *cobra.Command {
	f := topFlags{}
	cmd := &cobra.Command{
		Use:   "top [zoo.cfg]",
		Short: "Show who does what: operations, paths, clients, slow requests",
		Long: `Show who does what on the servers of an ensemble, live: requests a second, bytes, failures, latency,
watches, events and the time of apply, by operation, by subtree and znode, by session, address and user, and the
slowest requests with the phases of their time. All servers are added up; of percentiles the largest is shown.

Keys: 1-7, tab or arrows to the sides: another table. s: sort by the next column. r: the other way round. /: show
what has a text in it. Space: freeze. Arrows, page up and down, home, end: other rows. q: end.

The servers are found as zkd status finds them, again every ten seconds: who joins appears, who is removed goes. Each
is asked by its admin server (--admin-port, or that of zoo.cfg). Who is not on the same machine is answered if
admin.serverAddress is set there, or with the superuser's credentials, super:password, from --credentials-file or the
environment variable ZKD_SUPER_CREDENTIALS. Paths are sampled under load; the column ± says how far a rate may be off.

Servers of Apache ZooKeeper tell requests and latencies of clients alone, by their admin server, or by the four-letter
words mntr and cons where those are whitelisted.

Where it is no terminal that is written to, or with --once, one report of the last interval is written, as text or JSON.

Exit status: 0 a report was shown; 1 no server has answered; 2 the command line is wrong.`,
		Example: `  zkd top
  zkd top --server zk1:2181 --view znodes
  zkd top --admin http://zk1:8080,http://zk2:8080
  zkd top --once --interval 10s --output json`,
		Args: oneOptional(),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.status.servers, "server", nil,
		"`host:port` of a server's clients, or more with commas between them")
	flags.StringSliceVar(&f.admins, "admin", nil, "`URL` of an admin server, or more; only these are asked")
	flags.IntVar(&f.adminPort, "admin-port", 0, "`port` of the admin servers; default that of zoo.cfg, or 8080")
	flags.StringVar(&f.credentials, "credentials-file", "", "`file` that holds super:password")
	flags.DurationVar(&f.interval, "interval", 2*time.Second, "how often it is asked, and for how long back")
	flags.DurationVar(&f.status.timeout, "timeout", 3*time.Second, "how long a server may take to answer")
	flags.BoolVar(&f.once, "once", false, "write one report and end")
	flags.StringVar(&f.shown.View, "view", "",
		"`table` to begin with, or to write: "+strings.Join(top.ViewNames(), ", "))
	flags.StringVar(&f.shown.Sort, "sort", "", "title of the `column` to sort by")
	flags.StringVar(&f.shown.Filter, "filter", "", "show what has this `text` in it")
	flags.IntVar(&f.shown.Rows, "rows", 10, "rows of each table of a report as text")
	f.status.tls.addTo(cmd)
	f.output.addTo(cmd)
	return cmd
}

// run shows who does what.
func (f *topFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.prepare(cmd.Context(), args); err != nil {
		return err
	}
	if !f.once && !f.output.json && isTerminal(cmd.OutOrStdout()) {
		return f.live(cmd)
	}
	r := f.report(cmd.Context())
	if f.asker.Waits(r) { // Apache's: what comes about shows from now on
		timer := clock.Real().NewTimer(f.interval)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
		r = f.report(cmd.Context())
	}
	err := f.output.write(cmd.OutOrStdout(), r, func(w io.Writer) error { return top.Text(w, r, &f.shown) })
	return errors.Join(err, r.Answered())
}

// prepare finds out who is asked, and how.
func (f *topFlags) prepare(ctx context.Context, args []string) error {
	if f.interval < topIntervalMin || f.interval > topIntervalMax {
		return usageError{fmt.Errorf("--interval must be from %v to %v", topIntervalMin, topIntervalMax)}
	}
	if f.shown.Rows < 1 {
		return usageError{errors.New("--rows must be 1 or more")}
	}
	if err := f.shown.Check(); err != nil {
		return usageError{err}
	}
	if len(f.admins) > 0 && (len(args) > 0 || len(f.status.servers) > 0 || f.adminPort != 0) {
		return usageError{errors.New("give either --admin, or where the servers are")}
	}
	authorization, err := superCredentials(f.credentials)
	if err != nil {
		return err
	}
	client, err := f.client()
	if err != nil {
		return usageError{err}
	}
	f.asker = report.NewAsker(report.Options{Client: client, Authorization: authorization, Timeout: f.status.timeout,
		Clock: clock.Real()})
	if len(f.admins) > 0 {
		return f.named()
	}
	return f.found(ctx, args)
}

// superCredentials are the superuser's for an admin server, from a file or the environment; "" for none.
func superCredentials(file string) (string, error) {
	credentials := os.Getenv(credentialsVariable)
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read the credentials: %w", err)
		}
		credentials = string(text)
	}
	if credentials = strings.TrimSpace(credentials); credentials == "" {
		return "", nil
	}
	return "digest " + credentials, nil
}

// client is who asks admin servers. They are trusted as the ports for clients are.
func (f *topFlags) client() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.status.tls.caFile != "" {
		pool, err := trustedFile(f.status.tls.caFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	if name := f.status.tls.certFile; name != "" {
		own, err := tls.LoadX509KeyPair(name, name)
		if err != nil {
			return nil, fmt.Errorf("--cert-file %s must hold a certificate and its key in PEM: %w", name, err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}, CheckRedirect: noRedirect}, nil
}

// named takes the admin servers of --admin.
func (f *topFlags) named() error {
	for _, name := range f.admins {
		if !strings.Contains(name, "://") {
			name = "http://" + name
		}
		u, err := url.Parse(name)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return usageError{fmt.Errorf("--admin %q: want host:port, http://host:port or https://host:port", name)}
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = "/commands"
		}
		f.targets = append(f.targets, report.Target{Name: u.Host, Admin: strings.TrimSuffix(u.String(), "/")})
	}
	return nil
}

// defaultAdminPort is that of all admin servers that are not told otherwise.
const defaultAdminPort = 8080

// found finds the servers as zkd status does.
func (f *topFlags) found(ctx context.Context, args []string) error {
	seeds, err := f.status.seeds(args)
	if err != nil {
		return usageError{err}
	}
	path, scheme := "/commands", "http"
	port := f.adminPort
	if len(args) == 1 {
		c, err := conf.Load(conf.Sources{Path: args[0], ReadFile: os.ReadFile})
		if err != nil {
			return usageError{err}
		}
		path = "/" + strings.Trim(c.Admin.CommandURL, "/")
		if c.Admin.ForceHTTPS {
			scheme = "https"
		}
		if _, own, err := net.SplitHostPort(c.Admin.Addr); err == nil && port == 0 {
			port, _ = strconv.Atoi(own) // conf has joined it
		}
	}
	if port == 0 {
		port = defaultAdminPort
	}
	f.members = followedMembers{status: &f.status, seeds: seeds, found: make(chan []place, 1),
		asked: clock.Real().Now(),
		target: func(p place) report.Target {
			t := report.Target{Name: p.address}
			if host, _, err := net.SplitHostPort(p.address); err == nil && !p.unknown {
				t.Admin = scheme + "://" + net.JoinHostPort(host, strconv.Itoa(port)) + path
				t.Words = func(ctx context.Context, word string) (string, error) {
					return f.status.asker.fourLetters(ctx, p.address, word)
				}
			}
			return t
		}}
	f.targets = f.members.take(f.status.places(ctx, seeds))
	return nil
}

// report asks all servers.
func (f *topFlags) report(ctx context.Context) *report.Report {
	if targets, changed := f.members.follow(ctx); changed {
		f.targets = targets
	}
	seconds := int((f.interval + time.Second - 1) / time.Second)
	return f.asker.Ask(ctx, f.targets, seconds)
}

// live shows reports on the terminal.
func (f *topFlags) live(cmd *cobra.Command) (err error) {
	in, isFile := cmd.InOrStdin().(*os.File)
	out, ok := cmd.OutOrStdout().(*os.File)
	if !isFile || !ok {
		return usageError{errors.New("keys are read from a terminal: give --once for a report")}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	screen, err := terminal.Open(in, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, screen.Close()) }()
	keys := make(chan terminal.Key)
	go terminal.ReadKeys(ctx, in, keys) // it waits for the terminal until the process ends
	return top.Live(ctx, &top.LiveOptions{Screen: screen, Keys: keys, Ask: f.report, Interval: f.interval,
		Clock: clock.Real(), Model: top.NewModel(&f.shown)})
}
