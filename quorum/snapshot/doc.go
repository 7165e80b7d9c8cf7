// Package snapshot sends a directory of files that do not change, a checkpoint of the state, from one server to
// another.
//
// The Sender reads the directory, opens a stream to the member and offers a manifest: names, sizes and hashes. The
// Receiver answers how much of each file it has of the same snapshot, takes the rest, verifies every file against its
// hash, makes all of it durable, marks it complete, and hands it to the node. docs/formats/peer.md draws the bytes.
//
// It owns the staging directory while a transfer runs, and its two own files in it. It must never know what the files
// hold, nor raft: the header is opaque. Streams, the file system, time and what happens with a complete snapshot are
// handed in.
//
// # Invariants
//
//   - The staging directory is absent, partial (Complete is false), or complete, whenever the process or the machine
//     stops. It is complete only when each file has the manifest's hash and is on disk, with its name.
//   - A stream that breaks costs what was under way in it: the next one of the same snapshot goes on where the files
//     end. Another snapshot keeps the files that both have. What nobody can go on with any more, as another member
//     leads or the state has got as far, is removed within seconds, and else after a while.
//   - Nothing is taken that the disk has no room for, and what is there is removed then.
//   - The hash of a file is read once, however often it is sent, and in however many checkpoints it is.
//   - One snapshot is received at a time. A stream of the same sender takes the place of its earlier one, others are
//     told to come back.
//   - Nothing that the other side says is trusted: counts, sizes, names, and lengths are bounded before they are used.
//   - No more is sent than the rate allows, all transfers of a Sender taken together, so that messages of raft, which
//     have streams of their own, find room.
//   - Silence of the other side ends a stream. The receiver beats while it works; the sender reads all the time.
package snapshot
