package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/auth"
	"zkd/storage/backup"
	"zkd/storage/schema"
)

// Path is where a server has its backups.
const Path = "/zkd/backup"

// Names of what is said beside the backup.
const (
	ZxidHeader   = "Zkd-Zxid"   // of the backup, as 0x and hexadecimal digits
	ZnodesHeader = "Zkd-Znodes" // how many there are, decimal
	ErrorTrailer = "Zkd-Error"  // why the backup ends before its end
)

// ContentType is that of a backup.
const ContentType = "application/vnd.zkd.backup"

// writeTimeout is how long a client may take to read what was sent before the next block; a guess.
const writeTimeout = time.Minute

// Source writes the state of some moment during the call to w. It may use scratch, a directory that does not exist.
type Source func(ctx context.Context, scratch string, o backup.Options, w io.Writer) (schema.Summary, error)

// Options says what a Handler serves. All of it is required.
type Options struct {
	Source   Source
	Registry *auth.Registry // decides whose credentials are a superuser's
	// ScratchDir is a directory of the handler's own, on the state's file system, where checkpoints stand while they
	// are sent. New empties it.
	ScratchDir string
	FS         vfs.FS
	Clock      clock.Clock
	Logger     *slog.Logger
	Writer     string // the version of this server
}

// Handler serves backups. It is used by many requests at once.
type Handler struct {
	opts Options
	busy chan struct{} // of size 1: one backup at a time; who comes meanwhile is turned away
}

// New returns a handler, and removes the checkpoints that earlier processes have left.
func New(o Options) (*Handler, error) {
	if err := o.FS.RemoveAll(o.ScratchDir); err != nil {
		return nil, fmt.Errorf("remove the checkpoints of earlier backups in %s: %w", o.ScratchDir, err)
	}
	return &Handler{opts: o, busy: make(chan struct{}, 1)}, nil
}

// ServeHTTP answers with a backup, or with 401 without credentials, 403 with those of somebody who is no superuser, 405
// for another method than GET, 429 while another backup is made, and 500 if the state cannot be read.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "a backup is asked for by GET", http.StatusMethodNotAllowed)
		return
	}
	if status, why := h.authorize(r); status != http.StatusOK {
		h.opts.Logger.Warn("backup request denied", slog.String("remote", r.RemoteAddr), slog.Int("status", status))
		http.Error(w, why, status)
		return
	}
	h.Serve(w, r)
}

// Serve is ServeHTTP for somebody who has proven to be a superuser.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request) {
	select {
	case h.busy <- struct{}{}:
		defer func() { <-h.busy }()
	default:
		http.Error(w, "another backup of this server is under way: try again when it has ended, or ask another server",
			http.StatusTooManyRequests)
		return
	}
	h.send(w, r)
}

// authorize tells whether the request comes from a superuser. The credentials are those of ZooKeeper's own commands:
// "Authorization: digest super:password" (org.apache.zookeeper.server.admin.AuthRequest).
func (h *Handler) authorize(r *http.Request) (status int, why string) {
	scheme, data, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !ok {
		return http.StatusUnauthorized, "a backup holds all data, so it needs the header " +
			"\"Authorization: digest super:password\" with the password of DigestAuthenticationProvider.superDigest"
	}
	provider := h.opts.Registry.Provider(strings.ToLower(scheme))
	if provider == nil {
		return http.StatusUnauthorized, fmt.Sprintf("this server has no authentication scheme %q", scheme)
	}
	remote, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero address is nobody's
	ids, ok := provider.Authenticate(remote.Addr(), []byte(strings.TrimSpace(data)))
	super := slices.ContainsFunc(ids, func(id jute.ID) bool { return id.Scheme == auth.SchemeSuper })
	if !ok || !super {
		return http.StatusForbidden, "these are not the credentials of a superuser: set " +
			"DigestAuthenticationProvider.superDigest on the server, and give the password that belongs to it"
	}
	return http.StatusOK, ""
}

// send makes the backup and sends it.
func (h *Handler) send(w http.ResponseWriter, r *http.Request) {
	start := h.opts.Clock.Now()
	if err := h.opts.FS.MkdirAll(h.opts.ScratchDir, 0o750); err != nil {
		h.opts.Logger.Error("backup failed", slog.Any("err", err))
		http.Error(w, "the server cannot make a checkpoint: its log says why", http.StatusInternalServerError)
		return
	}
	out := &body{w: w, controller: http.NewResponseController(w), clock: h.opts.Clock}
	o := backup.Options{
		Made: jute.Millis(start.UnixMilli()), Writer: h.opts.Writer,
		Begun: func(info schema.Summary) error {
			header := w.Header()
			header.Set("Content-Type", ContentType)
			header.Set("Trailer", ErrorTrailer)
			header.Set(ZxidHeader, fmt.Sprintf("%#x", int64(info.Zxid)))
			header.Set(ZnodesHeader, strconv.FormatInt(info.Znodes, 10))
			out.begun = true
			return nil
		},
	}
	info, err := h.opts.Source(r.Context(), h.opts.FS.PathJoin(h.opts.ScratchDir, "checkpoint"), o, out)
	_ = out.controller.SetWriteDeadline(time.Time{}) // a server without deadlines has none to keep
	took := h.opts.Clock.Since(start)
	switch {
	case err == nil:
		h.opts.Logger.Info("backup sent", slog.String("remote", r.RemoteAddr),
			slog.String("zxid", fmt.Sprintf("%#x", int64(info.Zxid))), slog.Int64("znodes", info.Znodes),
			slog.Int64("bytes", out.bytes), slog.Duration("took", took))
	case r.Context().Err() != nil || out.err != nil: // that is all that is known of who has asked
		h.opts.Logger.Info("backup given up: client is gone, or takes nothing", slog.String("remote", r.RemoteAddr),
			slog.Int64("bytes", out.bytes), slog.Duration("took", took), slog.Any("err", err))
	case !out.begun:
		h.opts.Logger.Error("backup failed", slog.String("remote", r.RemoteAddr), slog.Any("err", err))
		http.Error(w, "the server cannot make a backup: its log says why", http.StatusInternalServerError)
	default:
		h.opts.Logger.Error("backup failed", slog.String("remote", r.RemoteAddr), slog.Int64("bytes", out.bytes),
			slog.Duration("took", took), slog.Any("err", err))
		w.Header().Set(ErrorTrailer, "the server could not go on: its log says why")
	}
}

// body writes to a client that must keep reading.
type body struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	clock      clock.Clock
	begun      bool
	bytes      int64
	err        error // of the client's connection
}

// Write implements io.Writer.
func (b *body) Write(p []byte) (int, error) {
	// A server without deadlines has none to keep.
	_ = b.controller.SetWriteDeadline(b.clock.Now().Add(writeTimeout))
	n, err := b.w.Write(p)
	b.bytes += int64(n)
	b.err = errors.Join(b.err, err)
	return n, err
}
