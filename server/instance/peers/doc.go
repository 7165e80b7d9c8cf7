// Package peers is what a member of an ensemble has that a server alone has not: the ports and streams to the other
// servers, checkpoints for them and from them, and the members as the ensemble has agreed on them.
//
// It owns where this server listens for the others and where it dials them, the first start of an ensemble (who
// bootstraps it, and whether on imported data), the preparation of a reconfig that moves addresses, and the
// configuration files, which follow the members. What agreement means is the node's affair (package quorum), and so is
// what is in a frame (quorum/transport). It must never know a client: where clients are to be after a reconfig goes
// through a channel.
//
// The node asks and tells on its own goroutines; what may wait runs on goroutines of a Peers, which Close ends. Clock,
// files, network and randomness are handed in.
package peers
