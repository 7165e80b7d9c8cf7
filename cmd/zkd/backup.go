package main

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/backup"
	statebackup "zkd/storage/backup"
	"zkd/storage/datadir"
	"zkd/storage/inspect"
	"zkd/storage/schema"
)

// backupStall is how long nothing may come from a server that makes a backup; a guess: before the first byte it flushes
// its state.
const backupStall = 2 * time.Minute

// credentialsVariable is the environment's place for the credentials of a superuser.
const credentialsVariable = "ZKD_SUPER_CREDENTIALS" //nolint:gosec // a name

// backupFlags are what zkd backup is told.
type backupFlags struct {
	from, credentials, caFile string
	dataDir, dataLogDir       string
	behind, force             bool
	output                    outputFlag
	notices                   []string // what is to be said of the backup
}

// newBackupCommand returns the command that makes a backup.
func newBackupCommand() *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Make a backup of a running ensemble, or of a data directory",
		Long: `Make a backup of the whole state (znodes, ACLs, sessions) as it was at one moment, the zxid that the
command prints, into FILE; "-" is standard output. FILE appears when the backup is complete and verified, not before.

With --from, a running server makes it while it goes on serving: any member of an ensemble, each has the whole state.
It wants the credentials of the superuser (DigestAuthenticationProvider.superDigest on the server), as super:password
in the file that --credentials-file names, or in the environment variable ` + credentialsVariable + `.

With --data-dir, it is read from the data directory of a server that does not run; nothing in it is changed.

A backup holds all data and the passwords of all sessions: keep it as you would keep the data directory.`,
		Example: `  zkd backup --from 127.0.0.1:8080 --credentials-file super.txt state.zkdbackup
  zkd backup --from https://zk1:8080 --ca-file ca.pem --credentials-file super.txt - | zstd > state.zkdbackup.zst
  zkd backup --data-dir /var/lib/zookeeper state.zkdbackup`,
		Args: required("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (f.from == "") == (f.dataDir == "") {
				return usageError{errors.New("name what to back up: either --from or --data-dir")}
			}
			defer interruptible(cmd)()
			return interrupted(cmd.Context(), f.run(cmd, args[0]), "there is no backup, and nothing is left of it")
		},
	}
	cmd.Flags().StringVar(&f.from, "from", "", "the `address` of a running server's HTTP port: host:port or a URL")
	cmd.Flags().StringVar(&f.credentials, "credentials-file", "", "`file` that holds super:password")
	cmd.Flags().StringVar(&f.caFile, "ca-file", "", "`file` with the certificates to trust, PEM, for https")
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "data `directory` of a server that does not run")
	cmd.Flags().StringVar(&f.dataLogDir, "data-log-dir", "", "its dataLogDir, if it has one")
	cmd.Flags().BoolVar(&f.behind, "allow-behind", false,
		"with --data-dir: back up the state although the raft log has writes that are not in it yet")
	cmd.Flags().BoolVar(&f.force, "force", false, "replace FILE if it is there")
	f.output.addTo(cmd)
	return cmd
}

// run makes the backup.
func (f *backupFlags) run(cmd *cobra.Command, file string) error {
	source := f.fromServer
	if f.dataDir != "" {
		source = f.fromDirectory
	}
	if file == "-" {
		info, err := source(cmd, cmd.OutOrStdout())
		if err != nil {
			return err
		}
		said := backupShown(&info, "-", f.notices)
		return f.output.write(cmd.ErrOrStderr(), said, backupText(said, "standard output"))
	}
	if _, err := os.Lstat(file); err == nil && !f.force {
		return fmt.Errorf("%s is there already: name another file, or give --force", file)
	}
	var info schema.Summary
	err := writeWhole(file, func(w io.Writer) (err error) {
		info, err = source(cmd, w)
		return err
	})
	if err != nil {
		return err
	}
	said := backupShown(&info, file, f.notices)
	return f.output.write(cmd.OutOrStdout(), said, backupText(said, file))
}

// writeWhole makes a file of what write writes, whole and synced, or none.
func writeWhole(name string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.partial") // readable by its owner alone
	if err != nil {
		return err
	}
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// fromServer has a running server make the backup, and verifies what comes.
func (f *backupFlags) fromServer(cmd *cobra.Command, w io.Writer) (info schema.Summary, err error) {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	request, err := f.request(ctx)
	if err != nil {
		return info, err
	}
	client, err := f.client()
	if err != nil {
		return info, err
	}
	stall := time.AfterFunc(backupStall, func() {
		cancel(fmt.Errorf("nothing has come from the server for %v", backupStall))
	})
	defer stall.Stop()
	response, err := client.Do(request)
	if err != nil {
		return info, fmt.Errorf("ask for a backup: %w", errors.Join(context.Cause(ctx), err))
	}
	defer response.Body.Close() //nolint:errcheck // it was read to its end, or an error says why not
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // the status says enough without it
		return info, fmt.Errorf("%s does not give a backup: %s: %s", request.URL.Redacted(), response.Status,
			strings.TrimSpace(string(text)))
	}
	body := &steady{r: response.Body, progress: func() { stall.Reset(backupStall) }}
	info, err = verifyBackup(io.TeeReader(body, w), cmd.ErrOrStderr())
	if err != nil {
		if why := response.Trailer.Get(backup.ErrorTrailer); why != "" {
			return info, fmt.Errorf("%w; %s", err, why)
		}
		return info, errors.Join(context.Cause(ctx), err)
	}
	return info, nil
}

// steady tells of each read.
type steady struct {
	r        io.Reader
	progress func()
}

// Read implements io.Reader.
func (s *steady) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.progress()
	return n, err
}

// request is what the server is asked.
func (f *backupFlags) request(ctx context.Context) (*http.Request, error) {
	address := f.from
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usageError{fmt.Errorf("--from %q: want host:port, http://host:port or https://host:port", f.from)}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = backup.Path
	}
	authorization, err := superCredentials(f.credentials)
	if err != nil {
		return nil, err
	}
	if authorization == "" {
		return nil, usageError{errors.New("a server gives a backup to its superuser only: give super:password by " +
			"--credentials-file or in " + credentialsVariable)}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", authorization)
	return request, nil
}

// client is who asks.
func (f *backupFlags) client() (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true}
	if f.caFile != "" {
		pool, err := trustedFile(f.caFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: noRedirect}, nil
}

// verifyBackup reads a backup to its end.
func verifyBackup(r io.Reader, stderr io.Writer) (schema.Summary, error) {
	b, err := statebackup.Open(r)
	if err != nil {
		return schema.Summary{}, err
	}
	p := newProgress(stderr, b.Info().Znodes)
	defer p.end()
	return b.Info(), b.Verify(p.at)
}

// fromDirectory reads the backup from a data directory.
func (f *backupFlags) fromDirectory(cmd *cobra.Command, w io.Writer) (info schema.Summary, err error) {
	logger := slog.New(slog.DiscardHandler)
	i, err := inspect.Open(datadir.Options{Dir: f.dataDir, LogDir: f.dataLogDir, FS: vfs.Default,
		Logger: logger})
	if errors.Is(err, inspect.ErrRunning) {
		return info, fmt.Errorf("%w; a running server makes the backup itself: zkd backup --from", err)
	}
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	state, err := i.OpenState()
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	if !f.behind {
		if f.notices, err = checkApplied(i, state.Info().Index, "--allow-behind"); err != nil {
			return info, err
		}
	}
	revision, _ := buildInfo()
	p := newProgress(cmd.ErrOrStderr(), state.Info().Znodes)
	defer p.end()
	return statebackup.Write(cmd.Context(), state.Reader(), statebackup.Options{
		Made: jute.Millis(clock.Real().Now().UnixMilli()), Writer: "zkd " + revision, Progress: p.at,
	}, w)
}

// backupJSON is a backup for scripts.
type backupJSON struct {
	File       string    `json:"file"`
	Zxid       string    `json:"zxid"`
	Digest     string    `json:"digest"`
	Znodes     int64     `json:"znodes"`
	Ephemerals int64     `json:"ephemerals"`
	Sessions   int64     `json:"sessions"`
	DataBytes  int64     `json:"data_bytes"`
	Index      uint64    `json:"index"`
	Term       uint64    `json:"term"`
	ClusterID  string    `json:"cluster_id"`
	Made       time.Time `json:"made"`
	Writer     string    `json:"writer"`
	Notices    []string  `json:"notices,omitempty"`
}

// backupShown is what is said of a backup.
func backupShown(i *schema.Summary, file string, notices []string) *backupJSON {
	return &backupJSON{File: file, Zxid: hexText(i.Zxid), Digest: fmt.Sprintf("%#x", i.Digest),
		Znodes: i.Znodes, Ephemerals: i.Ephemerals, Sessions: i.Sessions, DataBytes: i.DataBytes, Index: i.Index,
		Term: i.Term, ClusterID: hex.EncodeToString(i.ClusterID[:]), Made: time.UnixMilli(int64(i.Made)).UTC(),
		Writer: i.Writer, Notices: notices}
}

// backupText writes it for people; file is how they know it.
func backupText(s *backupJSON, file string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s: the state at zxid %s, digest %s: %d znodes (%d ephemeral), %d sessions, "+
			"%d bytes of paths and data; verified\n", file, s.Zxid, s.Digest, s.Znodes, s.Ephemerals, s.Sessions,
			s.DataBytes)
		for _, notice := range s.Notices {
			_, more := fmt.Fprintln(w, "note: "+notice)
			err = errors.Join(err, more)
		}
		return err
	}
}
