// Package zkdata reads and writes what the files of Apache ZooKeeper's data directory hold: snapshots and transaction
// logs of versions 3.4 to 3.9.
//
// Snapshot reads one snapshot, plain, gzip or snappy; Log reads one transaction log; Replay reads, over all logs, the
// transactions behind a snapshot; WriteSnapshot writes what Apache ZooKeeper 3.9 starts from. The package owns these
// formats, their checksums, and the rules by which a log that ends in a torn write is told from a damaged one. It must
// never know the names of files or how they are opened, which is for package migrate; nor what a transaction does to a
// tree, nor zkd's own stores: that is for those who apply what it reads.
//
// Everything streams: what is held in memory is one znode or one transaction, the sessions, and the distinct ACLs.
// Nothing is allocated for a length before that many bytes have come.
//
// What is wrong is an ErrDamaged with the file, the offset, what was found, and what to do. Offsets are those of the
// content: of a compressed file, after decompression.
//
// The formats are those of org.apache.zookeeper.server.persistence (FileSnap, FileTxnLog, SnapStream) and
// org.apache.zookeeper.server.util.SerializeUtils, verified byte by byte on files of the released servers.
package zkdata
