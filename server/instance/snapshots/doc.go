// Package snapshots takes snapshots of a running server in ZooKeeper's format, and loads those that operators send into
// the whole ensemble, through its log.
//
// It owns the directory where they are made and the one where they are kept, and sees to it that one is made and one is
// loaded at a time. It must never know who asks: server/admin, which calls it, looks at that. Clock, file system and
// randomness are handed in.
package snapshots
