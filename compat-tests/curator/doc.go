// Package curator proves zkd with Apache Curator: its framework and its recipes, with assertions in Java.
//
// The recipes that exclude run once more on three servers that are killed in turn, and with plain load while the
// servers are restarted one after the other.
//
// pom.xml pins the versions, src holds the program. Each check of it becomes a subtest here.
package curator
