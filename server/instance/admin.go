package instance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"zkd/conf"
	"zkd/jute"
	"zkd/server/admin"
	"zkd/server/auth"
	"zkd/server/backup"
	"zkd/server/instance/snapshots"
	"zkd/server/instance/tlsstores"
	statebackup "zkd/storage/backup"
	"zkd/storage/schema"
)

// operators is what serves operators: the admin server, and the port of the metrics.
type operators struct {
	logger  *slog.Logger
	network Network
	ports   []operatorPort
	running sync.WaitGroup
}

// operatorPort is one open port.
type operatorPort interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

// openOperators opens the ports for operators, if the configuration has any.
func (i *Instance) openOperators(ctx context.Context) error {
	i.operators = &operators{logger: i.logger, network: i.world.Network}
	page, err := i.metricsPage()
	if err != nil {
		return err
	}
	if i.config.Metrics.Prometheus {
		if err := i.openMetrics(ctx, page); err != nil {
			return fmt.Errorf("%s: %w", purpose(metricsKey), err)
		}
	}
	if !i.config.Admin.Enabled {
		return nil
	}
	switch err := i.openAdmin(ctx, page); {
	case err == nil:
		return nil
	case mustAdmin(i.config):
		return fmt.Errorf("%s: %w", purpose(adminKey), err)
	default:
		i.logger.Warn("admin server not started", slog.Any("err", err))
		return nil
	}
}

// mustAdmin reports whether the start fails without the admin server. ZooKeeper's fails when it is alone, and goes on
// in an ensemble. Here it also goes on when nobody has said where the admin server is to be, so that one more server on
// a machine starts.
func mustAdmin(c *conf.Config) bool {
	return !c.Ensemble.Distributed && (c.Given("admin.serverPort") || c.Given("admin.serverAddress"))
}

// openAdmin opens the port of the admin server.
func (i *Instance) openAdmin(ctx context.Context, page http.Handler) error {
	c := i.config
	backups, err := i.backupHandler(i.registry)
	if err != nil {
		return err
	}
	o := admin.Options{
		Clock: i.world.Clock, Logger: i.logger, Info: i.server.Info, Commands: i.commands, Metrics: i.server.SetMetrics,
		Page: page, InitialConfiguration: c.Initial, Properties: c.Properties, CommandURL: c.Admin.CommandURL,
		IdleTimeout: c.Admin.IdleTimeout, Profiles: c.Admin.Profiles, Unified: !c.Admin.ForceHTTPS, Backups: backups,
		Registry: i.registry, Anywhere: c.Given("admin.serverAddress"), DiskSpace: i.diskSpace,
		ForwardedFor: c.Auth.UseXForwardedFor,
		// Quirk: ZooKeeper takes the interval for microseconds where snapshots are limited.
		SnapshotInterval: c.Admin.SnapshotInterval / 1000, RestoreInterval: c.Admin.SnapshotInterval,
	}
	o.DiskHangs = func() bool {
		s := i.node.Status()
		return s.LogDisk.Hangs+s.StateDisk.Hangs > 0
	}
	if c.Ensemble.Distributed {
		o.Members = i.peers.Describe
	}
	if c.Metrics.Traffic {
		o.Traffic = i.server.Traffic
	}
	if identity, ok := i.registry.Provider(auth.SchemeX509).(auth.Certifier); ok {
		o.Certificate = func(cert *x509.Certificate) []jute.ID {
			ids, err := identity.Certify(cert)
			if err != nil { // it is nobody's
				return nil
			}
			return ids
		}
	}
	if c.Admin.Snapshot {
		o.Snapshots, err = snapshots.New(&i.config.Storage, i.world.FS, i.machine, i.dir.StateDir()+snapshotSuffix)
		if err != nil {
			return err
		}
	}
	if c.Admin.Restore {
		source, err := newSource(i.world.Random)
		if err != nil {
			return err
		}
		o.Restorer = snapshots.NewLoader(i.node, i.world.Clock, source.Uint64)
	}
	if c.Admin.ForceHTTPS || c.Admin.PortUnification {
		end := operatorsEnd(c.TLS.Quorum, c.Admin.NeedClientAuth)
		if o.TLS, err = i.operatorTLS(&end, "ssl.quorum."); err != nil {
			return err
		}
	}
	o.NeedCertificate = o.TLS != nil && c.Admin.NeedClientAuth
	if c.Admin.Console {
		if err := (consoleHost{i}).open(&o, backups); err != nil {
			return err
		}
	}
	i.admin = admin.New(o)
	err = i.operators.open(ctx, "admin", i.admin, c.Admin.Addr)
	if err != nil {
		i.admin = nil
		if i.console != nil {
			i.console.Close()
		}
	}
	return err
}

// operatorTLS reads the stores of a port for operators, now and when they change.
func (i *Instance) operatorTLS(end *conf.TLSEnd, prefix string) (*tls.Config, error) {
	set, err := i.world.stores().Open(*end, prefix, false)
	if err != nil {
		return nil, fmt.Errorf("TLS with operators: %w", err)
	}
	tlsstores.Warn(set.Warnings(), "operators", i.logger)
	i.reload(set, "operators")
	return set.Server(), nil
}

// snapshotSuffix makes the directory where snapshots are made from the state's, beside which it is.
const snapshotSuffix = ".snapshots"

// backupSuffix makes the directory of checkpoints for backups from the state's, beside which it is.
const backupSuffix = ".backups"

// backupHandler returns what answers to backup.Path on this server's HTTP port. It is made once, after the stores are
// open.
func (i *Instance) backupHandler(registry *auth.Registry) (*backup.Handler, error) {
	return backup.New(backup.Options{
		Source: i.backup, Registry: registry, FS: i.world.FS,
		ScratchDir: i.dir.StateDir() + backupSuffix, Clock: i.world.Clock, Logger: i.logger, Writer: i.program(),
	})
}

// backup writes the state to w.
func (i *Instance) backup(
	ctx context.Context, scratch string, o statebackup.Options, w io.Writer,
) (schema.Summary, error) {
	return statebackup.WriteMachine(ctx, i.machine, scratch, o, w)
}

// diskSpace is what health says of the disks.
func (i *Instance) diskSpace() (own, group string) {
	return i.guard.Level().String(), i.node.SpaceLevel().String()
}

// open serves a port; what is admin or metrics.
func (o *operators) open(ctx context.Context, what string, p operatorPort, addr string) error {
	l, err := o.network.Listen(ctx, addr, 0)
	if err != nil {
		return fmt.Errorf("listen for operators: %w", err)
	}
	o.ports = append(o.ports, p)
	o.logger.Info("admin server listening", slog.String("what", what), slog.String("addr", l.Addr().String()))
	o.running.Go(func() {
		if err := p.Serve(l); err != nil {
			o.logger.Error("admin port failed: restart", slog.Any("err", err))
		}
	})
	return nil
}

// operatorsTimeout is how long a stop waits for answers to operators; a guess. A backup or a snapshot that takes longer
// is cut off, which its reader sees.
const operatorsTimeout = 5 * time.Second

// close ends the ports.
func (o *operators) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, operatorsTimeout)
	defer cancel()
	var errs []error
	for _, p := range o.ports {
		errs = append(errs, p.Shutdown(ctx))
	}
	o.running.Wait()
	return errors.Join(errs...)
}

// joinPort writes an address.
func joinPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
