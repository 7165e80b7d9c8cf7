// Package auth knows who a connection is: the identities it has proven, the schemes that prove them, and the passwords
// by which a client comes back to its session.
//
// A Registry holds the schemes of one server and the rule that authentication is enforced by; it is immutable after
// New. Each connection has its own Identities, which begin with its address and only ever grow, as in ZooKeeper
// (org.apache.zookeeper.server.ServerCnxn.addAuthInfo). What an identity may do is not decided here: that is
// storage/acl, which is also where identities meet ACLs, because apply has to come to the same answer on every server.
//
// A scheme is a Provider. digest and ip are here; those that need more than the packet's bytes (x509: the certificate
// of the handshake; sasl: a dialogue) prove an identity elsewhere and hand it to Identities.Grant.
//
// Invariants: a snapshot of a connection's identities never changes; no password and no digest is ever part of an error
// or a log line; passwords are compared in constant time. The package reads no clock, no configuration and no global
// randomness.
package auth
