// Package entrytest makes proposals and entries for tests: from the words of a script, at random from a seed, or one
// call for each of those that most tests begin with. It knows what an entry is and nothing of what becomes of one, so
// that the tests of all who evaluate entries can use it.
package entrytest
