package ensemble

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// Bounds of the waits. Guesses: three JVMs start in 5 s on two idle cores and elect a leader within a second.
const (
	serveWithin = 120 * time.Second
	pollEvery   = 20 * time.Millisecond
)

// Options say which ensemble to start. The zero value starts three servers of the kind that ZKD_COMPAT_TARGET names,
// over loopback.
type Options struct {
	Kind      target.Kind       // default: target.Selected
	Servers   int               // participants; default 3
	Observers int               // have the ids after the participants'
	FromZero  bool              // the ids begin with 0, not with 1; not with Isolated
	Config    map[string]string // zoo.cfg keys that replace standard ones; an empty value removes the key
	JVMFlags  []string          // as target.Options.JVMFlags
	Network   NetworkKind
	Dynamic   bool // the members stand in a file of their own (dynamicConfigFile), and may change (reconfigEnabled)
	// Calm lets servers of zkd wait five seconds for a leader, not one: who leads changes by what the test does alone,
	// also on a machine that does other things.
	Calm bool
	// DiskBytes gives each server's data directory a file system of its own of that size, which FillDisk can fill.
	// 0: none. It needs root. DiskBytesOf is the same for single servers, by id.
	DiskBytes   int64
	DiskBytesOf map[int]int64
	// LogDiskBytes gives each server's log one of its own, too, of that size. 0: none.
	LogDiskBytes int64
	// CanHang makes these file systems such that HangDisk stops them; see Hangable. Without DiskBytes they are of
	// hangingBytes.
	CanHang bool
}

// Server is one member. Its methods are for the test's own goroutine.
type Server struct {
	*target.Server
	ID       int // from 1, or with Options.FromZero from 0
	Observer bool
	// Address is its host:port:port as all servers have it, but on a Proxied network; Client its address:port.
	Address, Client string

	tb   testing.TB
	hung bool // its disk hangs
}

// Ensemble is a set of servers that know of each other.
type Ensemble struct {
	Servers []*Server // by id
	Dynamic bool      // as in Options
	Network Network

	tb testing.TB
}

// Start starts all servers on empty data directories and returns once all serve. They end with the test.
func Start(tb testing.TB, o Options) *Ensemble {
	tb.Helper()
	e := Prepare(tb, o)
	e.StartAll()
	return e
}

// Prepare makes what Start starts.
func Prepare(tb testing.TB, o Options) *Ensemble {
	tb.Helper()
	if o.Kind == "" {
		o.Kind = target.Selected(tb)
	}
	target.Require(tb, target.ToolsOf(o.Kind)...)
	if o.Servers == 0 {
		o.Servers = 3
	}
	e := &Ensemble{tb: tb, Dynamic: o.Dynamic}
	e.Network = newNetwork(tb, o.Network, o.Kind, o.ids())
	for _, id := range o.ids() {
		e.Servers = append(e.Servers, e.prepare(id, o))
	}
	tb.Cleanup(func() { // at once, before each is stopped in turn
		for _, s := range e.Servers {
			s.ThawDisk()
			if s.Running() {
				s.Kill9()
			}
		}
	})
	return e
}

// ids are those of the servers.
func (o *Options) ids() (ids []int) {
	for n := range o.Servers + o.Observers {
		ids = append(ids, o.first()+n)
	}
	return ids
}

// first is the id of the first server.
func (o *Options) first() int {
	if o.FromZero {
		return 0
	}
	return 1
}

// observes tells whether the server with an id is an observer.
func (o *Options) observes(id int) bool { return id-o.first() >= o.Servers }

// prepare writes the files of one server.
func (e *Ensemble) prepare(id int, o Options) *Server {
	e.tb.Helper()
	host, port := e.Network.clientAddress(id)
	config := map[string]string{
		"initLimit": "10", "syncLimit": "5", "clientPortAddress": host, "clientPort": port, "tickTime": "2000",
	}
	if o.Calm && o.Kind == target.Zkd {
		config["zkd.electionTimeout"] = "5000"
	}
	maps.Copy(config, o.Config)
	var members strings.Builder
	for _, peer := range o.ids() {
		role := "participant"
		if o.observes(peer) {
			role = "observer"
		}
		fmt.Fprintf(&members, "server.%d=%s:%s", peer, e.Network.peerAddress(id, peer), role)
		if peerHost, peerPort := e.Network.clientAddress(peer); o.Dynamic {
			fmt.Fprintf(&members, ";%s:%s", peerHost, peerPort)
		}
		members.WriteByte('\n')
	}
	if o.Dynamic {
		config["reconfigEnabled"], config["clientPort"], config["clientPortAddress"] = "true", "", ""
	}
	if o.observes(id) {
		config["peerType"] = "observer"
	}
	if o.LogDiskBytes > 0 {
		config["dataLogDir"] = logDirName // below the server's directory, which it is started in
	}
	s := &Server{ID: id, Observer: o.observes(id), tb: e.tb}
	s.Address, s.Client = e.Network.peerAddress(id, id), host+":"+port
	s.Server = target.New(e.tb, target.Options{
		Kind: o.Kind, Config: config, JVMFlags: o.JVMFlags, Addr: net.JoinHostPort(host, port),
		Wrap: e.Network.wrap(id),
	})
	switch bytes := cmp.Or(o.DiskBytesOf[id], o.DiskBytes); {
	case o.CanHang:
		mountImage(e.tb, s.DataDir(), s.Dir, cmp.Or(bytes, hangingBytes))
	case bytes > 0:
		MountDisk(e.tb, s.DataDir(), bytes)
	}
	if o.LogDiskBytes > 0 {
		MountDisk(e.tb, s.LogDir(), o.LogDiskBytes)
	}
	s.writeID()
	if o.Dynamic {
		file := filepath.Join(s.Dir, "zoo.cfg.dynamic")
		s.write(file, members.String())
		s.append(s.ConfigPath(), "dynamicConfigFile="+file+"\n")
	} else {
		s.append(s.ConfigPath(), members.String())
	}
	return s
}

// StartAll starts the servers that do not run and returns once all serve.
func (e *Ensemble) StartAll() {
	e.tb.Helper()
	for _, s := range e.Servers {
		s.Launch()
	}
	e.AwaitServing(e.Servers...)
}

// AwaitServing returns once each of servers serves clients as leader, follower or observer, and one server of the
// ensemble leads. A server that ends meanwhile fails the test.
func (e *Ensemble) AwaitServing(servers ...*Server) {
	e.tb.Helper()
	e.await(func() (bool, string) {
		for _, s := range servers {
			if !s.Running() {
				e.tb.Fatalf("server %d has ended; the end of its log:\n%s", s.ID, s.LogTail(30))
			}
			switch mode := s.Mode(); mode {
			case "leader", "follower", "observer", "standalone":
			default:
				return false, fmt.Sprintf("server %d does not serve, its mode is %q", s.ID, mode)
			}
		}
		if len(e.Servers) > 1 && e.Leader() == nil {
			return false, "no server leads"
		}
		return true, ""
	})
}

// AwaitMode returns once the server's mode is the one given.
func (e *Ensemble) AwaitMode(s *Server, want string) {
	e.tb.Helper()
	e.await(func() (bool, string) {
		mode := s.Mode()
		return mode == want, fmt.Sprintf("the mode of server %d is %q, want %q", s.ID, mode, want)
	})
}

// AwaitLeader returns the leader once there is one.
func (e *Ensemble) AwaitLeader() *Server {
	e.tb.Helper()
	var leader *Server
	e.await(func() (bool, string) {
		leader = e.Leader()
		return leader != nil, "no server leads"
	})
	return leader
}

func (e *Ensemble) await(ready func() (ok bool, why string)) {
	e.tb.Helper()
	if why := Await(serveWithin, ready); why != "" {
		e.tb.Fatalf("after %v: %s", serveWithin, why)
	}
}

// Await asks until ready or until the time is over, and returns the last reason then.
func Await(within time.Duration, ready func() (ok bool, why string)) string {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		ok, why := ready()
		if ok {
			return ""
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			return why
		}
	}
}

// KillInTurn kills the leader and a follower in turn, each with SIGKILL, and starts it again, until done is closed. It
// returns how often it did, once all serve.
func (e *Ensemble) KillInTurn(done <-chan struct{}) int {
	e.tb.Helper()
	for n := 0; ; n++ {
		victim := e.AwaitLeader()
		if n%2 == 1 {
			victim = e.Followers()[0]
		}
		victim.Kill9()
		e.AwaitLeader()
		victim.Launch()
		e.AwaitServing(e.Servers...)
		calm := time.NewTimer(time.Second)
		select {
		case <-done:
			return n + 1
		case <-calm.C:
		}
	}
}

// Leader returns the server that says it leads, nil if none does. A server that is cut off may say so too until it
// notices: the first is returned.
func (e *Ensemble) Leader() *Server {
	modes := make([]string, len(e.Servers))
	var wg sync.WaitGroup
	for i, s := range e.Servers {
		if s.Running() {
			wg.Go(func() { modes[i] = s.Mode() }) // a paused one answers only after its time-out
		}
	}
	wg.Wait()
	if i := slices.Index(modes, "leader"); i >= 0 {
		return e.Servers[i]
	}
	return nil
}

// Followers returns the participants that run and do not lead.
func (e *Ensemble) Followers() []*Server {
	leader := e.Leader()
	return slices.DeleteFunc(slices.Clone(e.Servers), func(s *Server) bool {
		return s == leader || s.Observer || !s.Running()
	})
}

// Addrs returns the client addresses of all servers, by id.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.Servers))
	for i, s := range e.Servers {
		addrs[i] = s.Addr
	}
	return addrs
}

// Addresses returns the addresses for servers of all, by id.
func (e *Ensemble) Addresses() []string {
	addresses := make([]string, len(e.Servers))
	for i, s := range e.Servers {
		addresses[i] = s.Address
	}
	return addresses
}

// Hosts returns the connect string of all servers.
func (e *Ensemble) Hosts() string { return strings.Join(e.Addrs(), ",") }

// Move returns an address for the server with other ports than it has, host:port:port, and makes it its Address.
func (s *Server) Move() string {
	s.tb.Helper()
	ports := target.FreePorts(s.tb, 2)
	host, _, _ := strings.Cut(s.Address, ":")
	s.Address = fmt.Sprintf("%s:%d:%d", host, ports[0], ports[1])
	return s.Address
}

// Member is the server's line of a configuration, with a role: participant or observer.
func (s *Server) Member(role string) string {
	return fmt.Sprintf("server.%d=%s:%s;%s", s.ID, s.Address, role, s.Client)
}

// Log is what the server has logged since its first start.
func (s *Server) Log() string {
	s.tb.Helper()
	text, err := os.ReadFile(s.LogPath())
	if err != nil {
		s.tb.Fatal(err)
	}
	return string(text)
}

// logDirName is where a server keeps its log if that has a disk of its own.
const logDirName = "log"

// LogDir is where the server keeps its log with Options.LogDiskBytes.
func (s *Server) LogDir() string { return filepath.Join(s.Dir, logDirName) }

// Wipe removes all that a stopped server has stored, as the loss of its disk would, but for its id.
func (s *Server) Wipe() {
	s.tb.Helper()
	if s.Running() {
		s.tb.Fatalf("server %d runs: stop it before its data is removed", s.ID)
	}
	entries, err := os.ReadDir(s.DataDir())
	if err != nil {
		s.tb.Fatal(err)
	}
	for _, entry := range entries { // not the directory itself, which may be a mount
		if err := os.RemoveAll(filepath.Join(s.DataDir(), entry.Name())); err != nil {
			s.tb.Fatal(err)
		}
	}
	s.writeID()
}

func (s *Server) writeID() {
	s.tb.Helper()
	if err := os.MkdirAll(s.DataDir(), 0o750); err != nil {
		s.tb.Fatal(err)
	}
	s.write(filepath.Join(s.DataDir(), "myid"), strconv.Itoa(s.ID)+"\n")
}

func (s *Server) write(path, content string) {
	s.tb.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.tb.Fatal(err)
	}
}

func (s *Server) append(path, content string) {
	s.tb.Helper()
	old, err := os.ReadFile(path) //nolint:gosec // a file that this package has written
	if err != nil {
		s.tb.Fatal(err)
	}
	s.write(path, string(old)+content)
}
