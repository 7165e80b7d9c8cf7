// Package powercut records, for tests, what a power cut would leave of a disk before each operation that changes it,
// and in the middle of each write: with all, some or none of what was not synced. It can end the process before an
// operation, too. It must never know what is stored.
package powercut
