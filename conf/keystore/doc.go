// Package keystore turns the key and trust stores of zoo.cfg into what crypto/tls needs.
//
// It owns the reading of the formats that ZooKeeper takes (JKS, PKCS12, PEM), the names that Java has for protocols and
// cipher suites, and the checks of the other side's certificate, whose failures it explains: which key, which file, and
// what to do. A Set is read once and again when its files have changed; connections that are made afterwards use what
// was read last.
//
// What it must never know: who is at the other end, and what is said over the connection. It opens no file and asks for
// no time and no name but through Options.
//
// Invariants:
//
//   - No password and no key appears in a message.
//   - A Set never becomes worse: stores that cannot be read leave the ones before them in place.
//   - A certificate that cannot be checked as it is asked to be is refused.
package keystore
