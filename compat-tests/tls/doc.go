// Package tls proves TLS and certificates, with clients of four kinds and between servers.
//
// The certificates and the stores in PEM, PKCS12 and JKS are made by the test. What it prints of each connection was
// recorded from the real server, whose transcript zkd's must equal: who is served, who is refused, by which name a
// client is known, and what that name may do.
//
// It owns the certificates. It must never make a client trust more than its user would.
package tls
