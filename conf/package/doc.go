// Command package makes what a release consists of: binaries for each system, archives, .deb and .rpm packages, a list
// of what is inside each binary (SBOM), the licences of it, and checksums.
//
//	go run ./conf/package dist        everything, into dist/
//	go run ./conf/package reproduce   build twice in different folders, and compare
//	go run ./conf/package licences    write licences.txt anew; go generate does it
//
// It owns how zkd is built for others: one commit makes the same bytes in any folder, on any machine with the same Go
// toolchain. So nothing here asks for the time, the folder or the user: the time of everything is that of the commit.
// The tool imports nothing of the server. nfpm, which writes the packages, is run as a program of its own and is no
// requirement of this module.
//
// Invariants: a module is in licences.txt with a licence that the file licence.go allows, or a test fails; what an SBOM
// lists was read from the binary beside it, not from go.mod.
package main

//go:generate go run . licences
