// Package kazoo proves zkd with Kazoo, the Python client: its own test suite, and scripts of ours over every call and
// recipe.
//
// The suite is the one inside the package on PyPI, run as it is: its harness starts servers with the command java,
// and a java of ours, first in PATH, runs the server under test on the zoo.cfg that the harness wrote.
// testdata/excluded.txt lists what one server cannot serve, with the reason. Our scripts are the *.py files of
// testdata.
//
// It owns the pinned requirements.txt; it must never change a test of the client's to make it pass.
package kazoo
