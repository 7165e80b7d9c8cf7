package main

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"zkd/server/fourletter"
)

// What a release is stamped with by the linker (-X main.releaseName=…); conf/package does. They are empty in a build by
// hand, where the toolchain may have recorded the commit.
var (
	releaseName   string // as 0.1.0
	releaseCommit string // the commit
	releaseTime   string // when the commit was made, in seconds since 1970
)

// unnamed is what conf/package calls a build that was given no name.
const unnamed = "0.0.0-dev"

// release is the name of the release that this build is, "" if it is none: then its commit says more.
func release() string {
	if releaseName == unnamed {
		return ""
	}
	return releaseName
}

// newVersionCommand returns the command that prints what build this is.
func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the ZooKeeper release that it behaves as",
		Args:  required(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

// takeVersionFlag lets root print its version. Cobra's own flag would print it by a template; the templates of the
// standard library look methods up by name, and a linker that sees that keeps every method of every type: 5 MB.
func takeVersionFlag(root *cobra.Command) {
	asked := root.Flags().BoolP("version", "v", false, "version for zkd")
	otherwise := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !*asked {
			return otherwise(cmd, args)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
		return err
	}
}

// versionText says what build this is, and as which ZooKeeper it behaves.
func versionText() string {
	commit, built := buildInfo()
	name := commit
	if releaseName != "" {
		name = releaseName
	}
	return fmt.Sprintf("zkd %s, speaks as ZooKeeper %s", name, fourletter.FullVersion(commit, built))
}

// buildInfo returns the commit that the binary was built from and its time, as far as a release or the toolchain has
// recorded them. The time is the commit's and not the build's, so that one commit always makes the same binary.
func buildInfo() (commit string, built time.Time) {
	if releaseCommit != "" {
		seconds, _ := strconv.ParseInt(releaseTime, 10, 64) // 0 if none was given
		return releaseCommit, time.Unix(seconds, 0).UTC()
	}
	commit, built = "unknown", time.Unix(0, 0).UTC()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return commit, built
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.time":
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				built = t.UTC()
			}
		}
	}
	return commit, built
}
