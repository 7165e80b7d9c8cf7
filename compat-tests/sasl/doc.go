// Package sasl checks how clients log in by SASL, and what becomes of those that cannot: with frames of its own, with
// the Java client, Curator and Kazoo, by DIGEST-MD5 and, with a KDC of MIT Kerberos on the loopback address, by GSSAPI.
//
// Each program runs unchanged against zkd and the real ZooKeeper, and what it prints must be what was recorded from
// 3.9.5. It must never know how either server works.
//
// The C client's logins are in package cclient, which builds it.
package sasl
