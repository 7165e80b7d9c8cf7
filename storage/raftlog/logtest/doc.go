// Package logtest opens and fills raft logs for the tests of what stands above them. It knows nothing that raftlog does
// not export; raftlog's own tests have more.
package logtest
