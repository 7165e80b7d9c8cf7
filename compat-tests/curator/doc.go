// Package curator proves zkd with Apache Curator: its framework and its recipes, with assertions in Java.
//
// pom.xml pins the versions, src holds the program. Each check of it becomes a subtest here.
package curator
