// Package watch holds a server's table from path to the connections that watch it, and fires it.
//
// There are two tables in one, as in ZooKeeper (org.apache.zookeeper.server.DataTree has a dataWatches and a
// childWatches WatchManager): the data table, filled by exists, getData and addWatch, and the child table, filled by
// getChildren, getChildren2 and addWatch in the persistent mode. A watch is one pair of a connection and a path in one
// of them, with up to three modes at once: standard (fires once), persistent, and persistent recursive (the descendants
// as well).
//
// A table belongs to one server and is never replicated; a connection's watches die with the connection. The package
// knows nothing of sockets, sessions' lives or storage: it is told what changed, and it tells a Watcher.
//
// Its invariants:
//
//   - One change tells a connection at most once per table, and a connection that heard of a deletion from the data
//     table does not hear of it again from the child table.
//   - A standard watch that matched is gone, whether or not the connection was allowed to hear of the change.
//   - A watch costs less than 100 bytes, its path of 30 bytes and all indexes included, whatever the shape of the table
//     (TestMemoryPerWatch); a change of a path that nobody watches costs a lock and one lookup, or nothing while
//     nobody watches anything, and allocates nothing.
//   - Whoever is remembered to hear of a change (Remember) is found by a search, too, but for who has removed a watch
//     meanwhile; and nobody else is found.
//   - Everything a connection holds is dropped in time proportional to what it holds.
//
// Connections register on their own goroutines and one goroutine fires. A change that is fired before it can be read,
// while no registration that has read the old state is under way, is never missed; the caller provides for this by
// registering at the moment of the state that it answers from, under the lock that keeps entries out.
package watch
