// Package published runs the tests that ZooKeeper and Curator publish with their releases, unmodified, against
// processes of zkd.
//
// Those tests start servers within their own process. src puts processes in their place: what ServerCnxnFactory creates
// starts one for the ZooKeeperServer that it is given, and a QuorumPeer runs one with the configuration that it was
// given; Curator's TestingServer and TestingCluster are made of these. A server gets the system properties and the
// logins that the test has set, as one in its process would. What only looks into the process, beans of JMX and a
// counter of quotas, is silent. Everything else of the test's process is as published: the client, the tests, their
// clocks and waits.
//
// classes names the test classes; left-out the methods of these, and not-run the classes, that do not apply or deviate
// on purpose, each with its reason. Each class of the jars is in classes or in not-run (TestJars). A method that fails
// twice and is not left out fails the test; so does one that is left out and passes, and a class that starts no
// server. results has what came of each class when it was last run by make published; docs/published.md shows all four,
// which TestDocument compares. pom.xml pins the versions. It needs Java and Maven.
package published
