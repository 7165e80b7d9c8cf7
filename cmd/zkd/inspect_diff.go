package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"zkd/storage/backup"
	"zkd/storage/inspect"
	"zkd/storage/schema"
)

// errStatesDiffer is the exit status of a diff that has found something, as that of diff(1).
var errStatesDiffer = errors.New("the states differ")

// differenceJSON is one difference for scripts.
type differenceJSON struct {
	Path    string                    `json:"path,omitempty"`
	Session string                    `json:"session,omitempty"`
	OnlyIn  string                    `json:"only_in,omitempty"`
	Fields  []inspect.FieldDifference `json:"fields,omitempty"`
}

// diffFlags are what zkd inspect diff is told.
type diffFlags struct {
	inspectFlags
	server backupFlags // how a running server is asked
	most   int
}

// newInspectDiffCommand returns the command that compares two states.
func newInspectDiffCommand() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff FIRST SECOND",
		Short: "Find the znodes and sessions in which two states differ",
		Long: `Find the znodes and sessions in which two states differ: data, ACLs, every field of the Stats, timeouts,
passwords (as checksums). Each of FIRST and SECOND is a data directory (or the zoo.cfg that names it) of a server that
does not run, a backup, or the http:// or https:// address of a running server's HTTP port, which is asked for a backup
as zkd backup --from does.

What one of them had not applied yet is among the differences; the first lines say how far each has come. The exit
status is 1 if they differ.`,
		Example: `  zkd inspect diff /var/lib/zookeeper http://zk2.example:8080 --credentials-file super.txt
  zkd inspect diff /var/lib/zookeeper before.zkdbackup`,
		Args: required("FIRST", "SECOND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.most < 1 {
				return usageError{errors.New("--most is at least 1")}
			}
			defer interruptible(cmd)()
			return interrupted(cmd.Context(), f.run(cmd, args[0], args[1]), "not all was compared")
		},
	}
	f.addTo(cmd)
	cmd.Flags().IntVar(&f.most, "most", 20, "how many differences to show")
	cmd.Flags().StringVar(&f.server.credentials, "credentials-file", "", "`file` that holds super:password")
	cmd.Flags().StringVar(&f.server.caFile, "ca-file", "", "`file` with the certificates to trust, PEM, for https")
	return cmd
}

// run compares and shows.
func (f *diffFlags) run(cmd *cobra.Command, first, second string) error {
	shown, more := []differenceJSON{}, false
	var infos [2]schema.Summary
	err := f.with(cmd, first, func(a inspect.Comparable, aInfo schema.Summary) error {
		return f.with(cmd, second, func(b inspect.Comparable, bInfo schema.Summary) error {
			infos = [2]schema.Summary{aInfo, bInfo}
			return inspect.Differences(cmd.Context(), a, b, func(d inspect.Difference) bool {
				if more = len(shown) == f.most; !more {
					shown = append(shown, f.show(&d, first, second))
				}
				return !more
			})
		})
	})
	if err != nil {
		return err
	}
	err = f.output.write(cmd.OutOrStdout(), shown, func(w io.Writer) error {
		return diffText(w, shown, more, [2]string{first, second}, infos)
	})
	if err == nil && len(shown) > 0 {
		err = errStatesDiffer
	}
	return err
}

// show is a difference as it is shown.
func (f *diffFlags) show(d *inspect.Difference, first, second string) differenceJSON {
	j := differenceJSON{Path: d.Path, Fields: d.Fields, OnlyIn: [...]string{"", first, second}[d.OnlyIn]}
	if d.Path == "" {
		j.Session = hexText(d.Session)
	}
	return j
}

// diffText writes differences for people.
func diffText(w io.Writer, shown []differenceJSON, more bool, names [2]string, infos [2]schema.Summary) error {
	var t strings.Builder
	for i, info := range infos {
		fmt.Fprintf(&t, "%s: applied to entry %d, zxid %s, %d znodes\n", names[i], info.Index, hexText(info.Zxid),
			info.Znodes)
	}
	for i := range shown {
		d := &shown[i]
		name := d.Path
		if name == "" {
			name = "session " + d.Session
		}
		if d.OnlyIn != "" {
			fmt.Fprintf(&t, "%s: only in %s\n", name, d.OnlyIn)
		}
		for _, field := range d.Fields {
			fmt.Fprintf(&t, "%s: %s %s | %s\n", name, field.Name, field.First, field.Second)
		}
	}
	switch {
	case more:
		fmt.Fprintf(&t, "there are more: --most shows them\n")
	case len(shown) == 0:
		fmt.Fprintf(&t, "no difference\n")
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// with calls use with the state that source names.
func (f *diffFlags) with(cmd *cobra.Command, source string,
	use func(inspect.Comparable, schema.Summary) error) error {
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		return f.withServer(cmd, source, use)
	}
	if file, err := os.Open(source); err == nil {
		defer file.Close() //nolint:errcheck // opened for reading only
		if isBackup(file) {
			return withBackup(file, use)
		}
	}
	return f.withState(source, func(s *inspect.State) error { return use(s, s.Info()) })
}

// isBackup tells whether a file begins as a backup does.
func isBackup(file *os.File) bool {
	_, err := backup.Open(file)
	_, seeking := file.Seek(0, io.SeekStart)
	return err == nil && seeking == nil
}

// withBackup calls use with a backup.
func withBackup(file io.Reader, use func(inspect.Comparable, schema.Summary) error) error {
	b, err := backup.Open(file)
	if err != nil {
		return err
	}
	return use(b, b.Info())
}

// withServer calls use with a backup that a running server makes now.
func (f *diffFlags) withServer(cmd *cobra.Command, address string,
	use func(inspect.Comparable, schema.Summary) error) (err error) {
	spool, err := os.CreateTemp("", "zkd-diff-*") // readable by its owner alone
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spool.Close(), os.Remove(spool.Name())) }()
	asked := f.server
	asked.from = address
	if _, err := asked.fromServer(cmd, spool); err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return withBackup(spool, use)
}
