// Package tlsstores opens the key and trust stores of a server's TLS ports, for clients, for other servers and for
// operators, and reads them again when they change.
//
// It owns how often they are looked at, and how long a handshake may wait for a name server. What is in a store is the
// affair of conf/keystore; it must never know what a port is for. Clock, files and network are handed in.
package tlsstores
