// Package shell is the shell of zkd: the commands of zkCli.sh 3.9 with their options, their output and their exit
// status, and those that it has not. docs/cli.md is its manual, docs/decisions/0044-the-shell.md says why it is as it
// is.
//
// A Shell has a session (jute/client/session) and runs command lines: one from the arguments of zkd, or those of a
// pipe, or what a person types at a terminal, with a history, completion and colours. A command is a row of the table
// commands: its name, its usage, its options, and a function of a call, which has the words and the writers.
//
// The package owns how a line becomes a command and what is printed. It must never know how a connection is made or
// where TLS, passwords and defaults come from: cmd/zkd hands it a session's options. Clock, streams and environment are
// handed in; files that a command names it opens itself.
//
// Its invariants: what zkCli prints is printed as zkCli does, to the letter and to the same stream, errors on stderr;
// what is known to differ is in the manual. What servers say reaches a terminal escaped, never as control characters,
// and a pipe as it is. A command ends when its context does.
package shell
