// Package published runs the tests that ZooKeeper and Curator publish with their releases, unmodified, against
// processes of zkd.
//
// Those tests start servers within their own process. src puts processes in their place: what ServerCnxnFactory creates
// starts one for the ZooKeeperServer that it is given, and a QuorumPeer runs one with the configuration that it was
// given. Everything else of the test's process is as published: the client, the tests, their clocks and waits.
//
// classes names the test classes, left-out the methods that do not apply or deviate on purpose, each with its reason.
// A method that fails and is not left out fails the test; so does one that is left out and passes. pom.xml pins the
// versions. It needs Java and Maven.
package published
