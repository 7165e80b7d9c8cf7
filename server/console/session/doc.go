// Package session is one session of a person with a server, for the console: that of jute/client/session, under the
// identity that the person has proven, by many pages at once.
//
// It owns how long a session lives, the watches by which an open page learns that something has changed, and the list
// of children that was looked at last. It must never know HTTP, HTML, or who may do what: the server decides that, by
// its ACLs, and the code of its refusal is handed on.
//
// Invariants: credentials are in no error and no log; a session that nobody has used for IdleAfter is closed, and costs
// nothing then; a watch that nobody has looked at for a while is removed; a change of what is watched is never missed,
// whatever happens to connections meanwhile.
package session
