package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/auth"
	"zkd/server/fourletter"
	"zkd/server/stats/catalog"
	"zkd/server/traffic"
)

// Options says what a Server consists of. Clock, Logger, Info, Commands, Metrics and Registry are needed.
type Options struct {
	Clock  clock.Clock
	Logger *slog.Logger
	// Info is what the server has to show now, as for the four-letter commands. It may be called at any time.
	Info     func() *fourletter.Info
	Commands *fourletter.Commands
	Metrics  func(*catalog.Values)
	// Page serves the metrics for Prometheus at /metrics; nil for no such path.
	Page http.Handler

	// DiskSpace says, for health, how much room the disks of this server have, and those of its group: ample, low or
	// critical. nil: it is not known.
	DiskSpace func() (own, group string)

	Members func() *Members // nil for a server that is alone
	// Traffic says who has done what in the last seconds; nil if it is not counted.
	Traffic func(span time.Duration) *traffic.Window
	// DiskHangs tells whether a disk of this server does not answer; nil if nobody knows.
	DiskHangs func() bool
	// InitialConfiguration is the text of the zoo.cfg that was read, and Properties what holds, by ZooKeeper's names:
	// both without secrets.
	InitialConfiguration func() string
	Properties           func() map[string]string

	CommandURL  string        // admin.commandURL; "" is /commands
	IdleTimeout time.Duration // admin.idleTimeout: of a connection, and of a client that does not read
	Profiles    bool          // zkd.admin.pprof: serve /debug/pprof/
	// Console serves the console below ConsolePath; nil for no such path. It decides itself who may see what.
	Console http.Handler
	// Backups serves backups at backup.Path; nil for no such path. It decides itself who may have one.
	Backups http.Handler

	// TLS is how the port speaks TLS, nil for not at all; with Unified it takes plain HTTP besides.
	TLS     *tls.Config
	Unified bool

	// Registry has the schemes by which a client may prove who it is.
	Registry *auth.Registry
	// Anywhere has the commands that change something, or tell of clients, paths and the configuration, answered to
	// whoever asks; else to this machine, to superusers, and with NeedCertificate, which says that TLS demands one
	// here, to who comes by TLS.
	Anywhere, NeedCertificate bool
	// Certificate is who the owner of a verified certificate is; nil for nobody.
	Certificate func(*x509.Certificate) []jute.ID
	// ForwardedFor takes the client's address from the header X-Forwarded-For.
	ForwardedFor bool

	// Snapshots takes snapshots, Restorer restores them; nil as if it were disabled.
	Snapshots SnapshotSource
	Restorer  Restorer
	// SnapshotInterval and RestoreInterval are the shortest time between two.
	SnapshotInterval, RestoreInterval time.Duration
}

// SnapshotSource takes snapshots of the state in ZooKeeper's format.
type SnapshotSource interface {
	// Take takes one of the state as it is. keep leaves it among the server's files; else it is gone when its Body is
	// closed.
	Take(ctx context.Context, keep bool) (Snapshot, error)
}

// Snapshot is one that was taken.
type Snapshot struct {
	Zxid  jute.Zxid
	Bytes int64
	Body  io.ReadCloser
}

// Restorer replaces the state by a snapshot in ZooKeeper's format.
type Restorer interface {
	// Restore reads it to its end and returns its zxid. After an error the state is as it was.
	Restore(ctx context.Context, snapshot io.Reader) (jute.Zxid, error)
}
