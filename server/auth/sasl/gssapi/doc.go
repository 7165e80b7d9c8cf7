// Package gssapi is the mechanism GSSAPI of SASL (RFC 4752) for servers, and the Kerberos V5 behind it (RFC 4120,
// 4121).
//
// New makes the mechanism of an Acceptor; Kerberos is the Acceptor that takes tickets with a keytab. The formats and
// ciphers of Kerberos come from gokrb5, which only files of this package may import; what gokrb5 leaves to its caller,
// or does with a clock and a cache of its own, is here: the checks of a ticket and an authenticator, the memory of
// those that were seen, the acceptor's answer, and the tokens of a context.
//
// Login is the other end, for servers that log in at each other: it asks a KDC for tickets, with a keytab, and keeps
// them while they hold. It has the network and the clock of gokrb5 for that.
//
// No security layer is offered, as ZooKeeper offers none: who needs one uses TLS. Only keys of AES are taken; those of
// DES, triple DES and RC4 are refused, which MIT Kerberos no longer gives out either.
//
// Invariants: a ticket counts only for the principal of this server, in its time, with an authenticator of the same
// client that is no older than the clock skew and was not seen before. No error holds a key, a ticket or a token. A
// token may be at most tokenBytesMax long. Guard has a look at few at a time and gives up on one that takes too long;
// one at which gokrb5 panics is refused like any other.
package gssapi
