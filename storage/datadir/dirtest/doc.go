// Package dirtest opens data directories for the tests of what stands above them.
package dirtest
