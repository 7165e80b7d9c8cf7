// Package backup serves backups of a running server over HTTP: GET of Path answers with the state of one moment, in the
// format of docs/formats/backup.md.
//
// It owns who may have a backup and how many are made at once. A backup holds all data, all ACLs and the passwords of
// all sessions, so only a superuser gets one, whatever the ACL of the root says. What is in a backup belongs to
// storage; where the handler is mounted, and whether over TLS, to the owner of the HTTP server. It must never know the
// raft group: each member's state is one that the whole ensemble had.
//
// Invariants: one backup is made at a time; a client that does not read loses its connection and holds nothing up but
// the disk space of the checkpoint; nothing is sent before the credentials were checked; no credentials are logged.
package backup
