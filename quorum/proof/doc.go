// Package proof has servers of an ensemble prove to each other that they belong together, before anything else is said
// on a connection.
//
// There are two proofs, and either, both or none may be configured. A shared Secret is proven by challenge and response
// with HMAC-SHA256, in both directions; where the connection is not within TLS, all that follows is encrypted and
// authenticated with keys that come out of it. A Login is a dialogue of SASL, whose mechanisms are handed in; it proves
// who opens the connection, protects nothing of what follows, and is what ZooKeeper's keys quorum.auth.* ask for.
// docs/formats/peer.md draws the bytes; docs/decisions/0035 says why.
//
// It owns what is said before the handshake of quorum/transport. It must never know what follows, nor where a secret or
// a login comes from. Randomness is handed in; connections are bounded in time by whoever owns them.
//
// # Invariants
//
//   - Who demands a proof has learned nothing from the other side, and told it nothing but that a proof is wanted,
//     before it has come.
//   - What a server proves to another one with a secret says which of both it is, whom it calls, for what, with which
//     ephemeral keys, and within which connection of TLS: it is of no use on any other connection.
//   - The accepting side proves nothing before the dialing one has. Secrets and proofs are compared in constant time,
//     and no error holds any part of them.
//   - A record that was changed, left out, doubled or sent back ends the connection: nothing of it is handed on.
//   - Nothing that the other side says makes memory be taken beyond 64 KiB and what has come.
package proof
