package main

import (
	"zkd/quorum/clock"
	"zkd/server/auth"
	"zkd/server/backup"
)

// backupSuffix makes the directory of checkpoints for backups from the state's, beside which it is.
const backupSuffix = ".backups"

// backupHandler returns what answers to backup.Path on this server's HTTP port. It is made once, after the stores are
// open.
func (i *instance) backupHandler(registry *auth.Registry) (*backup.Handler, error) {
	revision, _ := buildInfo()
	return backup.New(backup.Options{
		Source: i.machine, Registry: registry, ScratchDir: i.dir.StateDir() + backupSuffix, Clock: clock.Real(),
		Logger: i.logger, Writer: "zkd " + revision,
	})
}
