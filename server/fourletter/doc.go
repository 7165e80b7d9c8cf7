// Package fourletter answers the four-letter commands: the plain-text commands that a client may send as the first four
// bytes of a connection in place of a handshake (org.apache.zookeeper.server.command).
//
// It owns the commands, the rule which of them are on, and their texts, byte for byte as ZooKeeper 3.9.5 writes them,
// because monitoring tools parse them. It knows nothing of how a server works: it is given an Info that says what to
// show, and gives back text. It reads no clock and no environment, and asks of an Info only what the command in
// question shows, so that the costly parts are functions.
//
// Invariants: a command that is not on the whitelist never reaches the server's state; a text is written in pieces, so
// that a report of a million watches needs no memory for all of it; metrics that zkd has no stage for are there with
// value 0.
package fourletter
