package instance

import (
	"cmp"
	"io"
	"log/slog"

	"zkd/conf"
	"zkd/server/audit"
)

// auditLog is the audit log of this process. The zero one is off.
type auditLog struct {
	log     *audit.Log // nil if it is off
	file    io.Closer  // nil if it goes to the server's log
	user    string     // who the server is in it
	started bool       // the start was written, so the stop is, too
}

// openAudit opens the audit log that c asks for. login is the principal of the server's own login, "" for none.
func openAudit(c conf.Audit, login string, w *World, logger *slog.Logger) (auditLog, error) {
	if !c.Enabled {
		return auditLog{}, nil
	}
	user := auditUser(login, w.System)
	if c.Path == "" {
		handler := logger.Handler().WithAttrs([]slog.Attr{slog.String("component", "audit")})
		return auditLog{log: audit.Open(audit.ToHandler(handler), w.Clock, logger), user: user}, nil
	}
	file, err := w.Files.Append(c.Path)
	if err != nil {
		return auditLog{}, err
	}
	formats := map[string]audit.Format{conf.AuditText: audit.FormatText, conf.AuditJSON: audit.FormatJSON,
		conf.AuditZooKeeper: audit.FormatZooKeeper}
	sink := audit.ToWriter(file, formats[c.Format])
	return auditLog{log: audit.Open(sink, w.Clock, logger), file: file, user: user}, nil
}

// begin writes that the server has started or, with an error, has failed to
// (org.apache.zookeeper.audit.ZKAuditProvider.addZKStartStopAuditLog, addServerStartFailureAuditLog).
func (a *auditLog) begin(failure error) {
	if a.log == nil {
		return
	}
	result := audit.Success
	if failure != nil {
		result = audit.Failure
	}
	a.started = failure == nil
	a.log.Write(audit.Event{User: a.user, Operation: audit.OpServerStart, Result: result})
}

// stop writes that the server stops.
func (a *auditLog) stop() {
	if a.started {
		a.log.Write(audit.Event{User: a.user, Operation: audit.OpServerStop, Result: audit.Invoked})
	}
}

// close writes what has gathered and ends the log.
func (a *auditLog) close() error {
	if a.log == nil {
		return nil
	}
	a.log.Close()
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// auditUser is who the server is in its audit log: the principal of its login or, without one, the user of the system
// that runs it (org.apache.zookeeper.audit.ZKAuditProvider.getZKUser, org.apache.zookeeper.Login.getUserName).
func auditUser(login string, s System) string { return cmp.Or(login, s.Process().User, "<NA>") }
