// Package console is the console of an ensemble in a browser: pages that the admin server has at /console/, or that zkd
// console serves for several ensembles, zkd's and Apache's.
//
// It owns the pages, who may see which, and the visits of those who have signed in. It owns nothing of what it shows:
// figures come from a Survey, and all that concerns znodes goes through a session of the visitor's own with a server
// (package session), so that ACLs, quotas, the audit log and limits hold as for every client. It must never know how a
// server works, and has no way to the state but that session.
//
// # Invariants
//
//   - Without a credential nothing can be changed, and nothing is seen but from this machine, under one of its names.
//     From elsewhere only what proves something lets in: the superuser, a user of SASL, a certificate that each
//     request shows again. Anybody can make up a name and a password of the scheme digest.
//   - Who is connected, and to what, is for operators, as in package admin.
//   - What changes something comes by POST, from a page of this origin, with the token of the visit, of a visit that is
//     not read-only.
//   - Nothing of a znode is ever HTML, a script or a style: pages are written by package page, and the policy of each
//     answer (Content-Security-Policy) allows scripts and styles from this server's own files alone. Nothing is fetched
//     from elsewhere.
//   - Passwords are kept in memory while a visit lasts, and are in no page, no log and no error.
//   - While nobody looks, nothing runs: no goroutine, no session, no sample.
package console
