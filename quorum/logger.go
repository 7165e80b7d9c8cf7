package quorum

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"go.etcd.io/raft/v3"

	"zkd/storage/serverid"
)

// raftLogger hands raft's messages to slog. What raft calls information and warnings (its elections and terms, in its
// own words) is for debugging: the node tells of what it means for the group itself, once.
type raftLogger struct{ logger *slog.Logger }

var _ raft.Logger = raftLogger{}

// zero is how raft writes the id of the server with the number 0, the one whose number is not its id in practice.
var zero = strconv.FormatUint(serverid.Of(0), 16)

// log writes one line, formatted only if somebody reads it.
func (l raftLogger) log(level slog.Level, text func() string) {
	if l.logger.Enabled(context.Background(), level) {
		l.logger.Log(context.Background(), level, "raft", slog.String("text", strings.ReplaceAll(text(), zero, "0")))
	}
}

func (l raftLogger) Debug(v ...any) {
	l.log(slog.LevelDebug, func() string { return fmt.Sprint(v...) })
}

func (l raftLogger) Debugf(format string, v ...any) {
	l.log(slog.LevelDebug, func() string { return fmt.Sprintf(format, v...) })
}

func (l raftLogger) Info(v ...any) {
	l.log(slog.LevelDebug, func() string { return fmt.Sprint(v...) })
}

func (l raftLogger) Infof(format string, v ...any) {
	l.log(slog.LevelDebug, func() string { return fmt.Sprintf(format, v...) })
}

func (l raftLogger) Warning(v ...any) {
	l.log(slog.LevelDebug, func() string { return fmt.Sprint(v...) })
}

func (l raftLogger) Warningf(format string, v ...any) {
	l.log(slog.LevelDebug, func() string { return fmt.Sprintf(format, v...) })
}

func (l raftLogger) Error(v ...any) {
	l.log(slog.LevelError, func() string { return fmt.Sprint(v...) })
}

func (l raftLogger) Errorf(format string, v ...any) {
	l.log(slog.LevelError, func() string { return fmt.Sprintf(format, v...) })
}

// Fatal and Panic mean that raft's own invariants broke: nothing may go on, whichever raft asks for.

func (l raftLogger) Fatal(v ...any)                 { panic("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any) { panic("raft: " + fmt.Sprintf(format, v...)) }
func (l raftLogger) Panic(v ...any)                 { panic("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any) { panic("raft: " + fmt.Sprintf(format, v...)) }
