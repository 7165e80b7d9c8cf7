// Package disktest finds, reads and damages the files of a store, for the tests of what has to notice. It knows nothing
// of what they hold.
package disktest
