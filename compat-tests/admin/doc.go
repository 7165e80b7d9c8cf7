// Package admin compares the answers of the admin server with those recorded from Apache ZooKeeper 3.9.5, standalone
// and from the leader, a follower and the observer of an ensemble: status, type, fields, their order, and the values
// that do not depend on the run.
//
// It owns the transcripts in testdata. It knows nothing of how either server works, and reads only what an operator
// would.
package admin
