// Package serverid says which id a server has inside zkd, by the number that operators and clients know it by.
//
// The number is N of the line server.N, what myid holds, and the top byte of session ids. ZooKeeper takes any but −1,
// 0 above all. The id is the server's in raft, on disks, between servers and in entries of the log. There 0 is nobody,
// and the two greatest are raft's own. So the id of a positive number is the number, as it has always been, and the
// others have ids that no positive number has.
//
// It owns the way from one to the other, and must never know who has which. Numbers come in with the configuration
// (conf) and with requests (storage/ensemble); everything behind that has ids. Whatever people or clients see is a
// number again: log lines, errors, metrics, commands, /zookeeper/config.
//
// Invariants: Number(Of(n)) is n for every number that a server may have; no two have the same id, and none has 0 or
// one of raft's; nobody's number is −1.
package serverid
