// Package gozk proves zkd with github.com/go-zookeeper/zk: the client's own test suite, and tests of ours that use
// it.
//
// The suite is the test files of the version in go.mod, copied out of the module cache and run as they are against
// servers that the suite starts itself, through a zkServer.sh that runs the server under test. One function of its
// harness is replaced, see upstream_test.go. Nothing of it is left out.
//
// It owns nothing; it must never change a test of the client's to make it pass.
package gozk
