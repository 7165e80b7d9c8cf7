// Package sasl is the server's side of SASL: the dialogue in which a client proves who it is with the tokens of its
// requests of opcode 102 (org.apache.zookeeper.server.ZooKeeperSaslServer).
//
// A Server has one Mechanism, as ZooKeeper's has: DIGEST-MD5 with a table of users, or GSSAPI (the sub-package gssapi).
// Which one is not negotiated; both ends know it from their configuration. Each connection has a Dialogue of its own,
// owned by its reader. What the mechanism proves is a name of Kerberos' form, user[/host][@realm], also where it is not
// Kerberos; Names turns it into the identity, and the Server adds what else goes with that: the superuser's identity,
// and the one that every SASL user has.
//
// Servers of an ensemble log in at each other by the same mechanisms (package quorum/proof): DigestLogin and the Login
// of gssapi are the ends that log in, and have the other end prove itself.
//
// It must never know connections, replies or error codes: zkd/server says what a refusal costs. It reads no file, no
// clock and no global randomness.
//
// Invariants: an identity comes out of a dialogue once, and only when its proof is complete; a dialogue that has failed
// never succeeds. Who a client is comes from its proof alone, never from the authorization id that it asks for. Secrets
// are compared in constant time, and an unknown user costs what a known one does. No error holds a password, a token or
// anything made of one. No token makes a dialogue panic or take memory beyond a small multiple of it.
package sasl
