// Package rules holds the rules of this repository as tests.
//
// They are what a compiler and the linters of .golangci.yml do not know: which package may import which, that the
// deterministic core asks no clock, that every package says what it is for. Each failure names the file, the line and
// the remedy. The tests parse the sources from the root of the module; they import nothing of the product and run in
// a second or two, so they are part of every test run.
//
// A rule belongs here when it has been broken, or would cost much if it were, and can be decided from the text of one
// file. An exception is a row in a table of the test, with its reason.
package rules
