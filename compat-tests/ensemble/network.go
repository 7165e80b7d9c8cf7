package ensemble

import (
	"fmt"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// NetworkKind says how the servers reach each other.
type NetworkKind int

// The kinds of networks.
const (
	Direct   NetworkKind = iota // over loopback; nothing can be cut
	Proxied                     // over proxies of this process
	Isolated                    // in network namespaces; see Isolable
)

// Network is what lies between the servers. Lines are cut by direction: bytes, or packets, of server from do not reach
// server to.
type Network interface {
	// Cut drops what from sends to to, on connections that are there and on new ones.
	Cut(from, to int)
	// Heal ends all cuts. What a sender holds unacknowledged then arrives, as TCP promises.
	Heal()

	clientAddress(id int) (host, port string)
	peerAddress(from, to int) string // host:port:port as the file of from names to
	wrap(id int) []string
}

// Worsener is a Network that can be made bad without being cut: a Proxied one.
type Worsener interface {
	// Delay holds every chunk of bytes back for d, until Heal.
	Delay(d time.Duration)
	// HalfOpen closes the connections between two servers at the side of gone alone: the other holds its ends and
	// hears nothing, until Heal.
	HalfOpen(gone, other int)
}

var _ Worsener = (*proxied)(nil)

// Isolate cuts a server off from all others, in both directions.
func (e *Ensemble) Isolate(id int) {
	for _, s := range e.Servers {
		if s.ID != id {
			e.Network.Cut(id, s.ID)
			e.Network.Cut(s.ID, id)
		}
	}
}

func newNetwork(tb testing.TB, kind NetworkKind, servers target.Kind, ids []int) Network {
	tb.Helper()
	switch kind {
	case Proxied:
		return newProxied(tb, ids, servers == target.Zookeeper)
	case Isolated:
		return newIsolated(tb, len(ids))
	default:
		return newDirect(tb, ids)
	}
}

// direct is loopback with free ports.
type direct struct {
	ports map[int][3]int // by id: client, quorum, election
}

func newDirect(tb testing.TB, ids []int) *direct {
	tb.Helper()
	d := &direct{ports: map[int][3]int{}}
	free := target.FreePorts(tb, 3*len(ids))
	for i, id := range ids {
		d.ports[id] = [3]int(free[3*i:])
	}
	return d
}

// Cut implements Network; nothing lies between.
func (d *direct) Cut(int, int) { panic("a direct network cannot be cut") }

// Heal implements Network.
func (d *direct) Heal() {}

func (d *direct) wrap(int) []string { return nil }

func (d *direct) clientAddress(id int) (host, port string) {
	return "127.0.0.1", fmt.Sprint(d.ports[id][0])
}

func (d *direct) peerAddress(_, to int) string {
	return fmt.Sprintf("127.0.0.1:%d:%d", d.ports[to][1], d.ports[to][2])
}
