// Package costs is told what it costs a server to apply an entry, in the program that plays plans: storage/state tells
// it there, by what compat-tests/simulation puts into its sources. Nobody does elsewhere.
//
// It owns who hears of them. What they may be it must never know.
package costs
