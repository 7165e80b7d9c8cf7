// Package cclient proves zkd with the C client of Apache ZooKeeper: every synchronous and asynchronous call, watches
// and their removal, sessions that break, move and end; and with TLS and SASL, who is served, as whom, and who is
// refused.
//
// Debian's library (libzookeeper-mt) makes the calls. It is built without TLS and without SASL, so for these the test
// builds Apache's source itself, as it is (library_test.go).
//
// src holds the programs, compiled by the test: each folder is one, but for shared and library, which all have. They
// print transcripts without times, ids and absolute zxids, which are compared with those recorded from the real server
// (run with ZKD_COMPAT_TARGET=zookeeper and -update).
package cclient
