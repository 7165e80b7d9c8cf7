// Package cclient proves zkd with the C client of Apache ZooKeeper (libzookeeper-mt): every synchronous and
// asynchronous call, watches and their removal, and sessions that break, move and end.
//
// src holds the program, compiled by the test. It prints a transcript without times, ids and absolute zxids, which is
// compared with one recorded from the real server (run with ZKD_COMPAT_TARGET=zookeeper and -update).
package cclient
