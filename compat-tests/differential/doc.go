// Package differential gives the same frames to the real Apache ZooKeeper and to the server under test, and compares
// what comes back.
//
// There are three tests. TestCaptures replays the exchanges recorded from the real server (jute/testdata) and needs no
// Java. TestScripts runs the scripts of testdata on both servers. TestRandom runs scripts made from a seed, and where
// the servers differ it shrinks the script and prints the shortest one that still differs, in the language of
// testdata, so that it can be added there.
//
// A script is lines of "connection verb arguments"; script_test.go says which. It is run on each server by itself and
// yields a transcript: every frame in order, every field of it, with only these replaced: zxids by their distance to
// the script's first one, session ids by the connection that opened the session, times by whether they are set and
// agree with the zxids; lists of children and of ephemerals, which ZooKeeper leaves in the order of a hash table, are
// sorted. At the end the tree that the script left is read back and compared as well, and removed. A write is followed
// by a ping on every other connection, which brings in the events that the write caused, so that a transcript does not
// depend on speed.
//
// The package owns the script language, the transcripts, testdata/deviations.txt (what zkd does otherwise on purpose)
// and testdata/excluded.txt (captures that one server cannot replay). It decodes replies by itself, field by field, so
// that a fault of the product's codec cannot hide one of its own.
//
// It must never know how either server works; a difference is a fault of the server under test, unless
// testdata/deviations.txt gives the reason for it.
package differential
