package target

import (
	"fmt"
	"maps"
	"net"
	"testing"
	"time"
)

// StartSecure is Start for a server that has a port for TLS alone as well, whose address it returns. What the port
// shows and trusts is for o.Config to say (ssl.*).
func StartSecure(tb testing.TB, o Options) (s *Server, addr string) {
	tb.Helper()
	port := fmt.Sprint(FreePort(tb))
	config := map[string]string{
		"secureClientPort": port, "secureClientPortAddress": "127.0.0.1",
		"serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
	}
	maps.Copy(config, o.Config)
	o.Config = config
	s, addr = Start(tb, o), net.JoinHostPort("127.0.0.1", port)
	s.awaitPort(addr)
	return s, addr
}

// awaitPort waits until connections are accepted at addr: ZooKeeper opens the port for TLS after the other.
func (s *Server) awaitPort(addr string) {
	s.tb.Helper()
	deadline := time.NewTimer(startWithin)
	defer deadline.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		if nc, err := net.DialTimeout("tcp", addr, dialWithin); err == nil {
			_ = nc.Close() // nothing was said
			return
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			s.tb.Fatalf("%s has no port for TLS at %s after %v", s.Kind, addr, startWithin)
		}
	}
}
