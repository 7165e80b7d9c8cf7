package main

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"zkd/server/fourletter"
)

// newVersionCommand returns the command that prints what build this is.
func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the ZooKeeper release that it behaves as",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			revision, built := buildInfo()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "zkd %s, speaks as ZooKeeper %s\n", revision,
				fourletter.FullVersion(revision, built))
			return err
		},
	}
}

// buildInfo returns the revision that the binary was built from and its time, as far as the toolchain has recorded
// them.
func buildInfo() (revision string, built time.Time) {
	revision = "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return revision, time.Unix(0, 0).UTC()
	}
	built = time.Unix(0, 0).UTC()
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.time":
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				built = t.UTC()
			}
		}
	}
	return revision, built
}
