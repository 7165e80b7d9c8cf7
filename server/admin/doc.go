// Package admin is the HTTP side of a server for operators: the commands of Apache ZooKeeper's AdminServer with their
// JSON (org.apache.zookeeper.server.admin), the page of metrics for Prometheus, health and readiness for Kubernetes,
// and the runtime's profiles if they are asked for.
//
// It owns the paths, the form of the answers, who may take and restore snapshots, and how often. What it shows it is
// given: an Info, as the four-letter commands are, the catalog's Values, and what only the configuration knows. It must
// never know how a server works, and it reads no clock and no file.
//
// # Invariants
//
//   - A command answers with ZooKeeper's fields in ZooKeeper's order, then with command and error.
//   - Answers are written in pieces: a report of a million watches needs no memory for all of it, and a client that
//     does not read is cut off after IdleTimeout.
//   - A snapshot leaves, and a restore begins, only for a superuser: no ACL lets anybody come to it.
//   - What changes something, or tells of clients, paths or the configuration, is answered to this machine, to
//     superusers and to certificates that were demanded; to others if the configuration has said where operators are.
//   - No secret of the configuration is in any answer.
package admin
