// Package curator proves zkd with Apache Curator: its framework and its recipes, with assertions in Java.
//
// The recipes that exclude run once more on three servers that are killed in turn.
//
// pom.xml pins the versions, src holds the program. Each check of it becomes a subtest here.
package curator
