// Package conf turns zoo.cfg, the environment and the flags of the command line into one immutable Config.
//
// It owns the table of keys: for each its name, the JVM property it is in ZooKeeper, its kind, default and range, what
// zkd makes of it, and which field it fills. Parsing, checking, the notices to the operator, docs/configuration.md and
// the sample files zoo_sample.cfg and zoo_ensemble.cfg all come from that table, so none of them can disagree with
// another. To add a key is to add a row.
//
// It also writes: WriteDynamic puts the members that a reconfiguration has made into a dynamic configuration file and
// names it in zoo.cfg. The sub-package keystore turns the keys of TLS into a *tls.Config.
//
// What it must never know: how a server works. It imports no other package of zkd; server/instance turns a Config into
// the options of each part. It reads no clock, no environment and no file but through what Sources hands it, writes
// none but through Files, and logs nothing: the caller logs Config.Notices.
//
// Invariants:
//
//   - The text of zoo.cfg is read as java.util.Properties reads it: ISO-8859-1, \uXXXX, continuation lines, the last of
//     two equal keys wins. A test compares the two readers.
//   - A Config that Load returns is valid and never changes. All wrong values are reported at once, each with its
//     place.
//   - No key that is set to more than its default is passed over in silence: one that is unknown or has no effect makes
//     a Notice that says why; one whose effect is missing and must not be is listed by Config.Unsupported.
//   - Secrets appear in no message.
//   - A zoo.cfg that WriteDynamic has edited reads as before but for the members, which its dynamic file has, whatever
//     fails in between.
//
// Sources are layered with viper, lowest first: defaults, -D words of SERVER_JVMFLAGS and JVMFLAGS, the variables of
// the official image, zoo.cfg, ZKD_ variables, flags. That is the order of ZooKeeper and its image:
// QuorumPeerConfig.parseProperties sets a JVM property from zoo.cfg over the one of the command line, and the image
// writes a zoo.cfg from its variables and their defaults, but only when there is none, so that they do not count beside
// one. The server lines count as one value: the highest source that has any gives all of them.
package conf

//go:generate go test -run TestGenerated -update .
