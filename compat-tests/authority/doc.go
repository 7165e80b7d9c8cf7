// Package authority makes certificates for the tests: an authority that signs what a test asks for, right or wrong, and
// writes it in the forms that servers and clients read (PEM, PKCS12, JKS).
//
// It owns the files of an authority, which end with the test. It must never know who is shown a certificate, nor import
// any package of the product: what the product reads must not be what the product wrote.
//
// Invariants: an identity is for the loopback address, servers and clients alike, for a day, unless the test changes
// it; its key is RSA, which every client knows, and the same for all identities of a process, since making one takes
// long.
package authority
