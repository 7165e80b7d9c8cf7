// Package audit compares the audit log of the server under test with that of Apache ZooKeeper, line by line.
//
// One script makes every request that is in the audit log, allowed and refused; testdata/audit.golden holds the lines
// that ZooKeeper 3.9.5 has written for it with the settings of its logger that it is shipped with. Times are replaced,
// and session ids by the order of the sessions; the digests of passwords, which zkd does not write into a log, are
// replaced in what ZooKeeper has written, too.
//
// It owns the script and the settings of ZooKeeper's logger. It must never know which server writes.
package audit
