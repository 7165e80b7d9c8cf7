// Package target starts the server that the compatibility tests drive, and prepares the clients that drive it.
//
// The server under test is either zkd, built from this module (or given by ZKD_BIN), or the real Apache ZooKeeper,
// fetched from Maven Central. ZKD_COMPAT_TARGET chooses; a test never asks which one it got, so that whatever passes
// on one is demanded of the other. Both are given the same zoo.cfg, and what ZooKeeper takes only as a JVM property
// goes to both as well: as an argument of java, and as SERVER_JVMFLAGS for zkd.
//
// The package owns: the temporary directories of the servers, whose processes bench/process runs, the cache of fetched
// clients (class paths, Python environments, built binaries; ZKD_COMPAT_CACHE, else a folder in the user's cache
// directory), the record of the parts that were left out because a tool is missing, golden transcripts, and a TCP proxy
// whose connections a test can cut.
//
// It must never know what a particular client does, nor import any package of the server's: zkd is a process here, as
// it is to its users.
//
// Invariants: every process is killed when its test ends; every wait has a deadline; a part that is left out is
// recorded by name and reason, and fails the test where CI=true, so nothing is ever silently not run.
package target
