// Package survey asks the servers of an ensemble what they say of themselves, zkd's and Apache's, and makes of it what
// a person wants to know: who plays which part, how much is done, how far somebody is behind, what is wrong and what to
// do about it, in words.
//
// It owns the last few minutes of samples. It asks when somebody looks, once a second at the most however many look,
// and does nothing while nobody does. What runs in this process it is handed; the others it asks by their four-letter
// words, or where those are not allowed, at their admin servers. It must never know HTML, nor who looks, and it changes
// nothing.
//
// Invariants: a server that does not answer costs the sample a second, and no other server's figures; what a server
// says is text, of bounded length, and a number where it is used as one.
package survey
