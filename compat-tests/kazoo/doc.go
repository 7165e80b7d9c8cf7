// Package kazoo proves zkd with Kazoo, the Python client: its own test suite on three servers, scripts of ours over
// every call and recipe, and its Election while servers are killed.
//
// The suite is the one inside the package on PyPI, run as it is: its harness starts servers with the command java,
// and a java of ours, first in PATH, runs the server under test on the zoo.cfg that the harness wrote.
// testdata/excluded.txt lists what is not run, with the reason. Our scripts are the *.py files of testdata, and of
// testdata/ensemble those for several servers.
//
// It owns the pinned requirements.txt; it must never change a test of the client's to make it pass.
package kazoo
