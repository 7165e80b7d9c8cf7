// Package kdc starts a KDC of MIT Kerberos on the loopback address, with a realm of its own and a few principals, for
// the tests of GSSAPI.
//
// It owns the realm's files and the process, which end with the test. It must never know what a client or a server does
// with a ticket.
//
// Invariants: nothing outside the test's own folder is read or written; what uses the KDC does so by Env or, in Java,
// by Config.
package kdc
