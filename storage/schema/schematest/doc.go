// Package schematest checks the keys and values of a whole state for tests: whoever has written them, they agree with
// each other. It knows no store.
package schematest
