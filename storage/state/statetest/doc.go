// Package statetest has what the tests of the packages above the state begin with: a Machine on a file system in
// memory, with a state that they choose or that a seed does, and a look at all keys and values of its store. It knows
// nothing of a Machine that is not exported; the Machine's own tests have more.
package statetest
