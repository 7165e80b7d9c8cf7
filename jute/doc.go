// Package jute is the client protocol of ZooKeeper 3.9 as bytes: primitives, frames, every request and response
// record, the opcodes, the error codes and the rules for paths.
//
// The records are generated from one table, schema.txt, by internal/gen (run "go generate ./jute"): a record has its
// fields in wire order, Append that adds its encoding to a buffer, and Decode that reads it from a Decoder. Neither
// uses reflection, and neither allocates for a field: strings and buffers of a decoded record are views of the frame,
// valid for as long as the caller keeps the frame's bytes unchanged. Whoever keeps one longer copies it.
//
// The package knows nothing of sockets, sessions or storage; jute/client knows the first two. Its invariants:
//
//   - A Decoder never reads past its frame, never panics, and never allocates more than a small multiple of the bytes
//     that are left: a count or a length is held against them before anything is made. The worst are four times the
//     frame for vectors and three times for text that is not UTF-8.
//   - What decodes encodes to the same bytes, but for what the protocol calls equal: trailing bytes, booleans other
//     than 1, negative vector counts other than -1, and invalid UTF-8, which is replaced as Java replaces it.
//   - Only the "echo" records of the schema, which are replies, encode characters outside the basic plane in Java's
//     way, which is not UTF-8. All others keep them whole, so that an ACL may be stored with its own Append and
//     Decode.
//   - null and empty are different, for buffers (nil and []byte{}), vectors (nil and a slice without elements) and
//     strings (the record's Nulls).
package jute

//go:generate go run ./internal/gen -schema schema.txt -out records.go
