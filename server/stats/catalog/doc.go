// Package catalog is the one table of a server's metrics: every name that Apache ZooKeeper 3.9 has, with what it means
// here or why it has no meaning, and the names that only zkd has; and the Values that a server sets at one moment.
//
// It owns the names, their kinds, labels and units, and the order in which mntr shows them. The four-letter command
// mntr, the admin command monitor, the Prometheus page and docs/metrics.md are all made of it. It knows nothing of how
// a figure is measured, and nothing of the three formats.
//
// Invariants: a name is in the table once; a value is only set under a name of the table, and by its kind; what
// ZooKeeper always shows and nobody sets is 0.
package catalog
