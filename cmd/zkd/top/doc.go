// Package top shows who does what on the servers of an ensemble: it makes tables of a report (server/traffic/report),
// for a terminal and as plain text.
//
// The package owns what is shown of a report, and what keys make of it. It must never know how a terminal is driven
// (cmd/zkd/terminal), nor where servers are found, nor how they are asked. Whatever comes from a server is a stranger's
// text, and is cleaned before it is shown.
package top
