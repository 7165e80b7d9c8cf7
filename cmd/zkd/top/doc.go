// Package top shows who does what on the servers of an ensemble: it asks each one, adds up what they say, and makes
// tables of it, for a terminal and as plain text.
//
// A server of zkd is asked for the admin command top. One that has it not, Apache's, is asked for its connections and
// its figures, by its admin server or by four-letter words: from two samples follows what came between them, by client
// and altogether.
//
// The package owns what is asked, how answers of several servers become one report, and what is shown of it. It must
// never know how a terminal is driven (cmd/zkd/terminal), nor where servers are found. Whatever comes from a server is
// a stranger's text, and is cleaned before it is shown.
package top
