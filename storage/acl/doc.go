// Package acl decides what the identities of a connection may do to a znode, and which ACL lists a znode may get.
//
// It holds pure functions over jute's ACL and ID records: no state, no configuration, no clock. The state machine
// calls them while it applies a write, so that two servers must come to the same answer from the same arguments; the
// server calls them for reads and before it delivers watch events. What depends on configuration is an argument:
// Schemes says which schemes have a provider, and a server that skips ACLs does not ask at all.
//
// The package knows the schemes world, auth, digest, ip, sasl, x509 and super as org.apache.zookeeper.server.auth has
// them. It never checks a password: identities are proven elsewhere.
//
// Invariants: a list that Fix returns shares no memory with its argument, is not empty, holds neither null strings
// nor the scheme auth nor world with another id than anyone, and is never changed by anyone afterwards.
package acl
