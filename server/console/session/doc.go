// Package session is one session of a person with a server, for the console: real requests, under the identity that the
// person has proven, by many pages at once.
//
// It owns the connection: the order of what is written, who waits for which reply, pings while somebody uses it, and an
// end once nobody does. It owns the watches by which an open page learns that something has changed. It must never know
// HTTP, HTML, or who may do what: the server decides that, by its ACLs, and the code of its refusal is handed on.
//
// Invariants: a reply goes to who has asked, or to nobody; a wait ends with the context or the connection; credentials
// are in no error and no log; a session that nobody has used for IdleAfter is closed, and costs nothing then.
package session
