package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"zkd/conf"
	"zkd/quorum"
	"zkd/server/instance"
	"zkd/storage/datadir"
	"zkd/storage/inspect"
	"zkd/storage/raftlog"
	"zkd/storage/schema"
	"zkd/storage/serverid"
)

// inspectFlags are what all commands of zkd inspect are told.
type inspectFlags struct {
	dataLogDir string
	output     outputFlag
}

// newInspectCommand returns the commands that look into a data directory.
func newInspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Look into the data directory of a server that does not run",
		Long: `Look into the data directory of a server that does not run; nothing in it is changed. DIR is the
directory, or the zoo.cfg that names it. Of a directory that a server uses make a backup, and look into what is
restored from it.`,
	}
	cmd.AddCommand(newInspectSummaryCommand(), newInspectLogCommand(), newInspectTreeCommand(),
		newInspectSessionsCommand(), newInspectDiffCommand())
	group(cmd)
	return cmd
}

// addTo adds the flags to cmd.
func (f *inspectFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dataLogDir, "data-log-dir", "", "dataLogDir, if the server has one")
	f.output.addTo(cmd)
}

// open opens the directory.
func (f *inspectFlags) open(dir string) (*inspect.Dir, error) {
	logDir := f.dataLogDir
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		c, err := conf.Load(configSources(nil, []string{dir}))
		if err != nil {
			return nil, usageError{err}
		}
		dir, logDir = c.Storage.DataDir, c.Storage.DataLogDir
	}
	return inspect.Open(datadir.Options{Dir: dir, LogDir: logDir, FS: vfs.Default,
		Logger: slog.New(slog.DiscardHandler)})
}

// withState calls use with the state of a directory.
func (f *inspectFlags) withState(dir string, use func(*inspect.State) error) error {
	i, err := f.open(dir)
	if err != nil {
		return err
	}
	state, err := i.OpenState()
	if err == nil {
		err = errors.Join(use(state), state.Close())
	}
	return errors.Join(err, i.Close())
}

// withLog calls use with the raft log of a directory.
func (f *inspectFlags) withLog(dir string, use func(*raftlog.LogInspection) error) error {
	i, err := f.open(dir)
	if err != nil {
		return err
	}
	log, err := i.OpenLog()
	if err == nil {
		err = errors.Join(use(log), log.Close())
	}
	return errors.Join(err, i.Close())
}

// summaryJSON is what zkd inspect summary says.
type summaryJSON struct {
	Format     int     `json:"format"`
	Level      uint16  `json:"feature_level"`
	Member     int64   `json:"member"` // -1: not written
	Term       uint64  `json:"term"`
	Vote       int64   `json:"vote"` // -1: none
	Commit     uint64  `json:"commit"`
	First      uint64  `json:"log_first"`
	Last       uint64  `json:"log_last"`
	LogBytes   int64   `json:"log_bytes"`
	Voters     []int64 `json:"voters"`
	Learners   []int64 `json:"learners,omitempty"`
	Installing bool    `json:"installing,omitempty"`
	Applied    uint64  `json:"applied"`
	Zxid       string  `json:"zxid"`
	Digest     string  `json:"digest"`
	Znodes     int64   `json:"znodes"`
	Ephemerals int64   `json:"ephemerals"`
	Sessions   int64   `json:"sessions"`
	DataBytes  int64   `json:"data_bytes"`
	StateBytes int64   `json:"state_bytes"`
	ClusterID  string  `json:"cluster_id"`
	Config     string  `json:"config,omitempty"`
}

// newInspectSummaryCommand returns the command that tells what is there.
func newInspectSummaryCommand() *cobra.Command {
	var f inspectFlags
	cmd := &cobra.Command{
		Use:   "summary DIR",
		Short: "Tell format, versions, log, state, members and digest",
		Args:  required("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := f.open(args[0])
			if err != nil {
				return err
			}
			s, err := summarize(i)
			if err = errors.Join(err, i.Close()); err != nil {
				return err
			}
			return f.output.write(cmd.OutOrStdout(), s, s.text)
		},
	}
	f.addTo(cmd)
	return cmd
}

// summarize looks at both stores.
func summarize(i *inspect.Dir) (*summaryJSON, error) {
	s := &summaryJSON{Format: i.Format(), LogBytes: instance.DirBytes(vfs.Default, i.RaftLogDir()),
		StateBytes: instance.DirBytes(vfs.Default, i.StateDir())}
	log, err := i.OpenLog()
	if err != nil {
		return nil, err
	}
	d, err := quorum.DescribeLog(log)
	s.First, s.Last = log.FirstIndex(), log.LastIndex()
	if err = errors.Join(err, log.Close()); err != nil {
		return nil, err
	}
	s.Member, s.Term, s.Vote = serverid.Number(d.Member), d.Term, serverid.Number(d.Vote)
	s.Commit, s.Installing = d.Commit, d.Installing
	s.Voters, s.Learners = serverid.Numbers(d.Voters), serverid.Numbers(d.Learners)
	state, err := i.OpenState()
	if err != nil {
		return nil, err
	}
	info := state.Info()
	s.Level = uint16(state.Level())
	s.Applied, s.Zxid, s.Digest = info.Index, hexText(info.Zxid), fmt.Sprintf("%#x", info.Digest)
	s.Znodes, s.Ephemerals, s.Sessions, s.DataBytes = info.Znodes, info.Ephemerals, info.Sessions, info.DataBytes
	s.ClusterID, s.Config = hex.EncodeToString(info.ClusterID[:]), info.Config
	return s, state.Close()
}

// text writes it for people.
func (s *summaryJSON) text(w io.Writer) error {
	var t strings.Builder
	fmt.Fprintf(&t, "format\t%d, feature level %d\n", s.Format, s.Level)
	if s.Member == serverid.Number(serverid.None) {
		fmt.Fprintf(&t, "member\tnone yet: no server has started on this directory\n")
	} else {
		fmt.Fprintf(&t, "member\t%d, voters %v, learners %v\n", s.Member, s.Voters, s.Learners)
		fmt.Fprintf(&t, "cluster\t%s\n", s.ClusterID)
	}
	if s.Last < s.First {
		fmt.Fprintf(&t, "raft log\tno entries, %d bytes\n", s.LogBytes)
	} else {
		fmt.Fprintf(&t, "raft log\tentries %d to %d, committed to %d, term %d, %d bytes\n", s.First, s.Last, s.Commit,
			s.Term, s.LogBytes)
	}
	fmt.Fprintf(&t, "state\tapplied to %d, zxid %s, %d bytes\n", s.Applied, s.Zxid, s.StateBytes)
	fmt.Fprintf(&t, "digest\t%s, of all znodes outside /zookeeper: paths, data, Stats\n", s.Digest)
	fmt.Fprintf(&t, "znodes\t%d, %d of them ephemeral, %d bytes of paths and data\n", s.Znodes, s.Ephemerals,
		s.DataBytes)
	fmt.Fprintf(&t, "sessions\t%d\n", s.Sessions)
	if s.Installing {
		fmt.Fprintf(&t, "install\tthe state of another server was being taken over; the next start goes on\n")
	}
	return writeTable(w, t.String())
}

// subtreeJSON is one subtree for scripts.
type subtreeJSON struct {
	Path         string `json:"path"`
	Znodes       int64  `json:"znodes"`
	Ephemerals   int64  `json:"ephemerals"`
	Containers   int64  `json:"containers"`
	TTL          int64  `json:"ttl"`
	PathBytes    int64  `json:"path_bytes"`
	DataBytes    int64  `json:"data_bytes"`
	LargestBytes int64  `json:"largest_data_bytes"`
	LargestPath  string `json:"largest_path"`
	NewestZxid   string `json:"newest_mzxid"`
}

// newInspectTreeCommand returns the command that measures subtrees.
func newInspectTreeCommand() *cobra.Command {
	var (
		f          inspectFlags
		depth, top int
	)
	cmd := &cobra.Command{
		Use:   "tree DIR",
		Short: "Measure the subtrees, the largest first, and verify all znodes",
		Long: `Measure the subtrees: znodes, bytes of paths and data, and the largest znode in each. It reads the
whole state and verifies it: checksums of paths and data, counts, and the digest of the tree.`,
		Args: required("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if depth < 0 || top < 1 {
				return usageError{errors.New("--depth is at least 0 and --top at least 1")}
			}
			var sizes []inspect.SubtreeSize
			err := f.withState(args[0], func(s *inspect.State) (err error) {
				p := newProgress(cmd.ErrOrStderr(), s.Info().Znodes)
				defer p.end()
				sizes, err = s.Sizes(depth, p.at)
				return err
			})
			if err != nil {
				return err
			}
			return writeSizes(cmd.OutOrStdout(), sizes[:min(top, len(sizes))], &f.output)
		},
	}
	f.addTo(cmd)
	cmd.Flags().IntVar(&depth, "depth", 2, "how far below the root subtrees are told apart; the root is 0")
	cmd.Flags().IntVar(&top, "top", 20, "how many subtrees to show")
	return cmd
}

// writeSizes writes sizes of subtrees.
func writeSizes(w io.Writer, sizes []inspect.SubtreeSize, output *outputFlag) error {
	shown := make([]subtreeJSON, 0, len(sizes))
	for i := range sizes {
		s := &sizes[i]
		shown = append(shown, subtreeJSON{s.Path, s.Znodes, s.Ephemerals, s.Containers, s.Timed, s.PathBytes,
			s.DataBytes, s.LargestData, s.LargestPath, hexText(s.NewestZxid)})
	}
	return output.write(w, shown, func(w io.Writer) error {
		var t strings.Builder
		fmt.Fprintln(&t, "PATH\tZNODES\tEPHEMERAL\tPATH BYTES\tDATA BYTES\tLARGEST\tWHICH")
		for i := range shown {
			s := &shown[i]
			fmt.Fprintf(&t, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", s.Path, s.Znodes, s.Ephemerals, s.PathBytes, s.DataBytes,
				s.LargestBytes, s.LargestPath)
		}
		return writeTable(w, t.String())
	})
}

// sessionJSON is one session for scripts. Its password is nobody's business.
type sessionJSON struct {
	ID         string   `json:"id"`
	TimeoutMS  int32    `json:"timeout_ms"`
	Owner      int64    `json:"owner"` // -1: none since the session was imported
	Ephemerals []string `json:"ephemerals"`
}

// newInspectSessionsCommand returns the command that lists sessions.
func newInspectSessionsCommand() *cobra.Command {
	var (
		f     inspectFlags
		paths bool
	)
	cmd := &cobra.Command{
		Use:   "sessions DIR",
		Short: "List the sessions, with the server that each came through last, and their ephemeral znodes",
		Args:  required("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			sessions := []sessionJSON{}
			err := f.withState(args[0], func(s *inspect.State) error {
				return s.Sessions(func(session schema.SessionInfo, ephemerals []string) {
					sessions = append(sessions, sessionJSON{hexText(session.ID),
						session.TimeoutMillis, serverid.Number(session.Owner), append([]string{}, ephemerals...)})
				})
			})
			if err != nil {
				return err
			}
			return f.output.write(cmd.OutOrStdout(), sessions, sessionsText(sessions, paths))
		},
	}
	f.addTo(cmd)
	cmd.Flags().BoolVar(&paths, "paths", false, "list the ephemeral znodes, too")
	return cmd
}

// sessionsText writes sessions for people.
func sessionsText(sessions []sessionJSON, paths bool) func(io.Writer) error {
	return func(w io.Writer) error {
		var t strings.Builder
		fmt.Fprintln(&t, "SESSION\tTIMEOUT\tSERVER\tEPHEMERAL ZNODES")
		for i := range sessions {
			s := &sessions[i]
			fmt.Fprintf(&t, "%s\t%v\t%d\t%d\n", s.ID, time.Duration(s.TimeoutMS)*time.Millisecond, s.Owner,
				len(s.Ephemerals))
			if paths {
				for _, path := range s.Ephemerals {
					fmt.Fprintf(&t, "\t\t\t%s\n", path)
				}
			}
		}
		return writeTable(w, t.String())
	}
}
