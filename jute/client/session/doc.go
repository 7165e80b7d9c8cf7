// Package session is a client of the protocol as an application needs it: one session that outlives its connections.
// The shell of zkd (cmd/zkd/shell) stands on it, and so may whatever acts for a person through the protocol.
//
// A Session connects to one of several servers, and to another one when the connection breaks or is silent for two
// thirds of the session's timeout. It proves its identities again on each connection (SASL first, then those of
// AddAuth), and sets its watches again, so that events which happened meanwhile are told. It sends pings, keeps to a
// chroot, and, where ReadOnly is asked for, takes a server without a quorum until it finds one with.
//
//	s, err := session.Open(session.Options{Servers: []string{"a:2181", "b:2181"}, Chroot: "/app",
//		Dial: dialer.DialContext, Now: time.Now, After: time.After})
//	defer s.Close(ctx)
//	data, stat, err := s.Get(ctx, "/config", false)
//	if session.CodeOf(err) == jute.NoNode { … }
//
// All methods may be called by any number of goroutines at once; requests go out in the order of the calls and are
// answered in it, so goroutines that call at once fill the pipe. A request that is made while there is no connection
// waits for one; it fails with jute.ConnectionLoss when each server was tried once in vain, and so does whatever was
// sent when a connection broke: nobody knows then whether it was done. Results are the caller's own.
//
// The package owns the session, its connection, its watches and identities. It must never know what its user shows or
// runs, how TLS is set up (Dial makes connections) or how a mechanism of SASL works (Login makes dialogues). Time and
// network are handed in. Its invariants: the session's own goroutine alone reads, and it alone calls OnEvent,
// which is told each event in the order of the connection, before the reply to any later request; nothing waits for
// ever on a server, but a caller waits until its ctx ends; an ended session (closed, expired, authentication failed)
// never comes back, and every call fails.
package session
