package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports that FreePorts chooses from: below those that the system gives to whoever asks for any (from 32768 on with
// Linux), so that nobody gets the port of a server that has not begun yet, or is down for a moment.
const (
	freePortsFrom = 17_000
	freePortsTo   = 32_000
	freePortsTry  = 100
)

// FreePorts returns n ports in a row of the loopback address of which each was free a moment ago, and which neither an
// outgoing connection gets nor, until release is called, another caller in any process.
func FreePorts(n int) (ports []int, release func(), err error) {
	for range freePortsTry {
		first := freePortsFrom + rand.IntN(freePortsTo-freePortsFrom-n) //nolint:gosec // any will do
		if ports, release, err = freeFrom(first, n); err == nil {
			return ports, release, nil
		}
	}
	return nil, nil, fmt.Errorf("find %d free ports in a row from %d to %d: %w", n, freePortsFrom, freePortsTo, err)
}

// freeFrom returns the n ports from first on if all are free. For those who come after, the UDP ports of the same
// numbers, which no server uses, say that they are taken.
func freeFrom(first, n int) (ports []int, release func(), err error) {
	guards := make([]net.PacketConn, 0, n)
	release = func() {
		for _, g := range guards {
			_ = g.Close() // nothing has come
		}
	}
	for port := first; port < first+n; port++ {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		guard, err := net.ListenPacket("udp", address)
		if err != nil {
			release()
			return nil, nil, err
		}
		guards = append(guards, guard)
		l, err := net.Listen("tcp", address)
		if err != nil {
			release()
			return nil, nil, err
		}
		_ = l.Close() // nothing was accepted
		ports = append(ports, port)
	}
	return ports, release, nil
}
