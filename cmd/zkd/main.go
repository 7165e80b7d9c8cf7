// Names are looked up by Go itself, in a binary with cgo, too: no C library gets to see what DNS answers.
//go:debug netdns=go

// Command zkd is a server that speaks the protocol of Apache ZooKeeper, and the tools around it.
//
// The package is the command line and nothing more: it turns flags, environment and zoo.cfg into a configuration
// (package conf), hands it to a server (package server/instance), and stops that when a signal says so. It is the only
// place that makes a real clock, real randomness, a real network and a real file system, and the only one that reads
// the environment. Every command says in its help what it does; an error is one message on stderr, or one line of
// the log there, and a non-zero exit status:
//
//	1  a command failed, or the server stopped by itself: the message says why
//	2  the command line or the configuration is wrong: all that is wrong is listed
//
// and others where the command's help lists them.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks errors of the command line and the configuration.
type usageError struct{ error }

// Unwrap returns what is wrong.
func (e usageError) Unwrap() error { return e.error }

// statusError is an error with an exit status of its own, which the command's help lists.
type statusError struct {
	error

	status int
}

// Unwrap returns what went wrong.
func (e statusError) Unwrap() error { return e.error }

// loggedError is an error that the log, which goes to stderr too, has told of with what to do.
type loggedError struct{ error }

// Unwrap returns what went wrong.
func (e loggedError) Unwrap() error { return e.error }

func main() {
	err := newRootCommand().Execute()
	if err == nil {
		return
	}
	if told := (loggedError{}); !errors.As(err, &told) {
		fmt.Fprintln(os.Stderr, "zkd:", err)
	}
	if usage := (usageError{}); errors.As(err, &usage) {
		os.Exit(exitUsage)
	}
	if status := (statusError{}); errors.As(err, &status) {
		os.Exit(status.status)
	}
	os.Exit(exitFailed)
}

// newRootCommand returns the command line.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "zkd",
		Short: "A drop-in replacement for the Apache ZooKeeper server",
		Long: `zkd is a server that clients cannot tell from Apache ZooKeeper 3.9.

  zkd serve            starts a server on port 2181 with its data in ./zkd-data
  zkd serve zoo.cfg    starts one with ZooKeeper's configuration file`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newServeCommand(), newImportCommand(), newExportCommand(), newBackupCommand(), newRestoreCommand(),
		newCheckCommand(), newStatusCommand(), newTopCommand(), newCLICommand(), newConsoleCommand(),
		newInspectCommand(), newBenchCommand(),
		newVersionCommand(),
		newManCommand(), newExitCodesTopic(), newDevCommand())
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			group(cmd)
			for _, shell := range cmd.Commands() {
				shell.Args = required()
			}
		}
	}
	group(root)
	takeVersionFlag(root)
	root.SetHelpCommand(newHelpCommand())
	return root
}
