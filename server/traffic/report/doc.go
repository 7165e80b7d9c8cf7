// Package report is who does what on the servers of an ensemble, in numbers that can be written down: what one server
// answers to the admin command top, and what the answers of several make together.
//
// A server of zkd is asked for the admin command top; one in this process by Of. One that has it not, Apache's, is
// asked for its connections and its figures, by its admin server or by four-letter words: from two samples follows
// what came between them, by client and altogether.
//
// The package owns what is asked, and how answers of several servers become one report. It must never know how a report
// is shown (cmd/zkd/top, server/console), nor where servers are found. Whatever comes from a server is a stranger's
// text, and it is shown by others: they clean it.
package report
