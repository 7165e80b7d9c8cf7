package main

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"zkd/quorum/clock"
	"zkd/server/admin"
	"zkd/server/console"
	"zkd/server/console/survey"
)

// consoleIdle is how long a browser may send nothing of a request that it has begun, or take nothing of an answer; that
// of admin.idleTimeout.
const consoleIdle = 30 * time.Second

// consoleFlags are what zkd console is told.
type consoleFlags struct {
	connect   []string
	listen    string
	adminPort int
	readOnly  bool
	logLevel  string
	tls       tlsFlags
}

// newConsoleCommand returns the command that serves the console of ensembles elsewhere.
func newConsoleCommand() *cobra.Command {
	var f consoleFlags
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show ensembles in a browser",
		Long: `Serve the console, for a browser, of one or more ensembles elsewhere, of zkd or Apache ZooKeeper, until
SIGTERM or SIGINT. Its address is printed, a line on standard output. (A zkd server has a console of its own, at
/console/ of its admin server.)

Each --connect names an ensemble and servers of it; the others are found from their configuration. What the servers tell
is what their four-letter words do, mntr above all (4lw.commands.whitelist), or else their admin servers at
--admin-port. Znodes are looked at and changed through sessions like any client's.

It listens on the loopback address, where one looks without a credential. With --listen elsewhere, only superusers and
users of SASL come in, and their passwords go in the clear.`,
		Example: `  zkd console --connect prod=zk1:2181,zk2:2181,zk3:2181 --connect test=zk-test:2181
  zkd console --connect prod=zk1:2281 --tls --ca-file ca.pem --read-only`,
		Args: required(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringArrayVar(&f.connect, "connect", nil, "an ensemble, as "+
		"`name=host:port,host:port`; may be repeated")
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8081",
		"`host:port` where browsers come; port 0 is any free one")
	cmd.Flags().IntVar(&f.adminPort, "admin-port", 8080, "where the servers have their admin servers; 0 is nowhere")
	cmd.Flags().BoolVar(&f.readOnly, "read-only", false, "change nothing, whoever signs in")
	cmd.Flags().StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	f.tls.addTo(cmd)
	return cmd
}

// run serves until a signal.
func (f *consoleFlags) run(cmd *cobra.Command) (err error) {
	logger, err := newLogger(f.logLevel, false)
	if err != nil {
		return usageError{err}
	}
	ensembles, err := f.ensembles()
	if err != nil {
		return usageError{err}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	pages, err := console.New(console.Options{Clock: clock.Real(), Logger: logger, Random: cryptorand.Reader,
		Ensembles: ensembles, ReadOnly: f.readOnly, Version: release()})
	if err != nil {
		return usageError{err}
	}
	defer pages.Close()
	mux := http.NewServeMux()
	mux.Handle(console.Path, pages)
	mux.Handle("GET /{$}", http.RedirectHandler(console.Path, http.StatusFound))
	port := admin.NewPort(admin.PortOptions{Handler: mux, Clock: clock.Real(), Logger: logger,
		IdleTimeout: consoleIdle})
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen for browsers: %w", err)
	}
	ended := make(chan error, 1) // the one end
	go func() { ended <- port.Serve(l) }()
	if _, err = fmt.Fprintf(cmd.OutOrStdout(), "http://%s%s\n", l.Addr(), console.Path); err == nil {
		select {
		case <-ctx.Done():
		case err := <-ended:
			return err
		}
	}
	pages.Close() // first: pages wait for its sessions
	within, cancel := context.WithTimeout(context.Background(), consoleStop)
	defer cancel()
	return errors.Join(err, port.Shutdown(within), <-ended)
}

// consoleStop is how long a stop waits for answers under way; a guess.
const consoleStop = 5 * time.Second

// ensembles are those that the flags name.
func (f *consoleFlags) ensembles() ([]console.Ensemble, error) {
	if len(f.connect) == 0 {
		return nil, errors.New("name an ensemble: --connect name=host:port")
	}
	asker, err := f.tls.asker(nil)
	if err != nil {
		return nil, err
	}
	var all []console.Ensemble
	for _, text := range f.connect {
		name, list, ok := strings.Cut(text, "=")
		if !ok || name == "" || list == "" {
			return nil, fmt.Errorf("--connect %q: want name=host:port,host:port", text)
		}
		e := console.Ensemble{Name: name, Dial: asker.dial,
			Asker: survey.Asker{Dial: asker.dial, AdminPort: f.adminPort, AdminURL: "/commands"}}
		for addr := range strings.SplitSeq(list, ",") {
			if !strings.Contains(addr, ":") {
				addr += ":2181"
			}
			e.Addrs = append(e.Addrs, addr)
		}
		all = append(all, e)
	}
	return all, nil
}
