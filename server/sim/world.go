package sim

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"zkd/server/sim/network"
)

// Options says what a world consists of. Random is needed.
type Options struct {
	Random       *rand.Rand
	Participants int
	Observers    int
	// FromZero says that the servers are numbered from 0 in their configurations, not from 1.
	FromZero bool
	// Spares are machines whose servers are in nobody's configuration. They are away until they come.
	Spares int
	// Places is in how many places a server may have its ports, for moves; 0 is 1.
	Places int
	// Settings are lines of each zoo.cfg.
	Settings []string
	LogLevel slog.Level
	// Least and Most bound what a message takes, while nothing is wrong; Sync is what a sync of a disk takes, about.
	Least, Most time.Duration
	Sync        time.Duration
	DiskBytes   int64 // room on each disk; 0: endless
	// Told has each line of the story as soon as it is told, for who dies before its end; nil: nobody has.
	Told io.Writer
}

// World is some machines with servers, and a network between them. It is made inside a bubble of testing/synctest.
type World struct {
	Story   *Story
	Network *network.Fabric
	Servers []*Server

	o     Options
	hosts int
}

// New returns a world in which no server runs.
func New(o Options) *World {
	w := &World{Story: newStory(o.Told), o: o}
	w.Network = network.New(network.Options{Random: o.Random, Least: o.Least, Most: o.Most})
	founders := o.Participants + o.Observers
	for i := range founders + o.Spares {
		w.Servers = append(w.Servers, w.newServer(uint64(i+1)))
	}
	var lines []string
	for i, s := range w.Servers[:founders] {
		lines = append(lines, s.Line(i >= o.Participants, 0, 0))
	}
	for i, s := range w.Servers {
		s.away = i >= founders
		s.Configure(lines...)
	}
	return w
}

// Addrs is where clients connect.
func (w *World) Addrs() (addrs []string) {
	for _, s := range w.Servers {
		addrs = append(addrs, s.Addrs()...)
	}
	return addrs
}

// Client adds a machine for clients.
func (w *World) Client() *network.Process { return w.host(fmt.Sprintf("c%d", w.hosts)).Process() }

// host adds a machine.
func (w *World) host(name string) *network.Host {
	w.hosts++
	n := w.hosts // a run has more than 255: each session of a check is opened from a machine of its own
	return w.Network.Host(name, netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}))
}

// Close ends all that runs, and waits for it.
func (w *World) Close() {
	for _, s := range w.Servers {
		s.Kill()
	}
	for _, s := range w.Servers {
		s.ended.Wait()
	}
}

// config is a zoo.cfg that names some servers.
func (w *World) config(lines []string) []byte {
	always := []string{"dataDir=" + dataDir, "admin.enableServer=false", "standaloneEnabled=false"}
	return []byte(strings.Join(slices.Concat(always, w.o.Settings, lines), "\n") + "\n")
}
