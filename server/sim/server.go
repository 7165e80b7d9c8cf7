package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/conf"
	"zkd/server/instance"
	"zkd/server/sim/goruntime"
	"zkd/server/sim/network"
)

// dataDir is where each server has its data, zooCfg its configuration.
const (
	dataDir = "/data"
	zooCfg  = "/conf/zoo.cfg"
)

// PeerPort and ClientPort are the ports of each server in its first place; those in the next ones follow.
const (
	PeerPort     = 2888
	electionPort = 3888
	ClientPort   = 2181
)

// Server is one machine and the server that runs there, or ran. It belongs to the goroutine of the world, but for what
// its process does.
type Server struct {
	ID     uint64 // from 1
	Number uint64 // in configurations: ID, or with Options.FromZero one less

	w      *World
	name   string
	host   *network.Host
	volume *volume
	clock  *skewed
	files  *files
	away   bool // Start does nothing
	older  bool // its program is the version before

	life  *life // nil: it does not run
	lives int
	ended sync.WaitGroup // of all lives
}

// life is one process.
type life struct {
	process *network.Process
	mount   *mount
	cancel  context.CancelFunc
	over    chan struct{} // closed when it has ended by itself, or is asked to
	logged  lastLines
}

// newServer makes a machine.
func (w *World) newServer(id uint64) *Server {
	s := &Server{ID: id, Number: id, w: w, clock: newClock()}
	if w.o.FromZero {
		s.Number--
	}
	s.name = fmt.Sprintf("s%d", s.Number)
	s.host = w.host(s.name)
	s.volume = newVolume(w.o.Random, w.o.DiskBytes)
	s.volume.set(diskFault{syncs: w.o.Sync})
	s.files = &files{held: map[string][]byte{path.Join(dataDir, "myid"): fmt.Appendf(nil, "%d\n", s.Number)}}
	return s
}

// Addrs is where its clients connect, in each of its places: they know all of them.
func (s *Server) Addrs() (addrs []string) {
	for place := range max(s.w.o.Places, 1) {
		addrs = append(addrs, fmt.Sprintf("%v:%d", s.host.Addr(), ClientPort+place))
	}
	return addrs
}

// Up tells whether its process runs.
func (s *Server) Up() bool { return s.life != nil }

// Line is what a configuration says of it: its role, and in which of its places other servers and clients find it.
func (s *Server) Line(observer bool, peers, clients int) string {
	role := "participant"
	if observer {
		role = "observer"
	}
	return fmt.Sprintf("server.%d=%s:%d:%d:%s;%d", s.Number, s.name, PeerPort+peers, electionPort+peers, role,
		ClientPort+clients)
}

// Configure gives the server another zoo.cfg, with the lines of servers, and further ones. It counts at its next start.
func (s *Server) Configure(lines ...string) {
	// No error: it is a map.
	_ = s.files.WriteFile(zooCfg, "", s.w.config(lines))
}

// Leave has the server be away until Come: it is down, and nothing starts it.
func (s *Server) Leave() {
	s.tell("is absent")
	s.Kill()
	s.away = true
}

// Withdraw asks the server to stop, and has it be away.
func (s *Server) Withdraw() {
	s.AskToStop()
	s.away = true
}

// Come has the server be there. It does not start it.
func (s *Server) Come() {
	if s.away {
		s.tell("is there")
	}
	s.away = false
}

// Away tells whether the server is not to run.
func (s *Server) Away() bool { return s.away }

// tell tells what befalls it.
func (s *Server) tell(format string, args ...any) { s.w.Story.Tell(s.name, "-- "+format, args...) }

// Start starts the server, as a service manager does that starts it again whenever it ends by itself.
func (s *Server) Start() {
	run := s.run
	if s.older {
		run = before
	}
	s.launch("start", run)
}

// launch starts a process.
func (s *Server) launch(what string, run func(context.Context, instance.World, *slog.Logger) error) {
	if s.life != nil || s.away {
		return
	}
	s.lives++
	s.host.PowerOn()
	l := &life{process: s.host.Process(), over: make(chan struct{})}
	s.life = l
	l.mount = s.volume.open()
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(s.w.o.Random.Uint32())
	}
	logger := s.w.Story.logger(s.name, s.w.o.LogLevel, &l.logged)
	w := instance.World{Clock: s.clock, FS: l.mount, Files: s.files, Network: l.process,
		Random: &randomness{source: rand.NewChaCha8(seed)}, System: noFigures{}}
	s.tell("%s %d", what, s.lives)
	s.ended.Go(func() {
		goruntime.Join(s.group())
		defer close(l.over)
		defer cancel()
		err := run(ctx, w, logger)
		s.tell("ended: %v", err)
	})
}

// run is the life of a process.
func (*Server) run(ctx context.Context, w instance.World, logger *slog.Logger) error {
	c, err := conf.Load(conf.Sources{Path: zooCfg, ReadFile: w.Files.ReadFile})
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	i, err := instance.Open(ctx, c, w, instance.Options{Logger: logger})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return errors.Join(i.Run(ctx), i.Close())
}

// Kill ends the process at once.
func (s *Server) Kill() { s.crash(false) }

// PowerOff ends the process at once, and takes what its disk has not synced. Its machine is silent until Start.
func (s *Server) PowerOff() { s.crash(true) }

// crash ends the process. What it goes on to do nobody sees.
func (s *Server) crash(power bool) {
	l := s.life
	if l == nil {
		return
	}
	s.tell("crash, of the power: %v", power)
	goruntime.Resume(s.group()) // it ends, unseen
	if power {
		s.host.PowerOff()
	} else {
		l.process.Kill()
	}
	s.volume.crash(power)
	s.life = nil
	l.cancel()
}

// group is that of the goroutines of its processes.
func (s *Server) group() int { return int(s.ID) } //nolint:gosec // it is small

// Pause has nothing of its process run until Resume. Built without the overlay of goruntime, it does nothing.
func (s *Server) Pause() {
	if s.life != nil {
		s.tell("is paused")
		goruntime.Pause(s.group())
	}
}

// Resume ends a pause.
func (s *Server) Resume() {
	s.tell("goes on")
	goruntime.Resume(s.group())
}

// AskToStop asks the server to stop, as an operator does.
func (s *Server) AskToStop() {
	if s.life != nil {
		s.tell("stop")
		s.life.cancel()
	}
}

// Lives is how often it was started.
func (s *Server) Lives() int { return s.lives }

// Stopped tells whether it has; then it is down.
func (s *Server) Stopped() bool { return s.life == nil || s.Ended() }

// Ended tells whether the server has ended by itself; then it is down.
func (s *Server) Ended() bool {
	if s.life == nil {
		return false
	}
	select {
	case <-s.life.over:
		s.crash(false)
		return true
	default:
		return false
	}
}

// LoseDisk puts an empty disk in the place of the server's, which must be down.
func (s *Server) LoseDisk() {
	s.tell("loses its disk")
	s.volume.replace()
}

// HangDisk has no write to the disk end until it is mended.
func (s *Server) HangDisk() {
	s.tell("disk hangs")
	s.volume.set(diskFault{hangs: true})
}

// SlowDisk has each sync take about as long as it says.
func (s *Server) SlowDisk(syncs time.Duration) {
	s.tell("disk is slow: %v", syncs)
	s.volume.set(diskFault{syncs: syncs})
}

// FailDisk has each write to the disk fail until it is mended.
func (s *Server) FailDisk() {
	s.tell("disk fails")
	s.volume.set(diskFault{fails: true})
}

// FillDisk leaves room for so many bytes on the disk.
func (s *Server) FillDisk(left int64) {
	s.tell("disk is filled but for %d bytes", left)
	s.volume.fill(left)
}

// FreeDisk takes away what has filled the disk.
func (s *Server) FreeDisk() {
	s.tell("disk has room again")
	s.volume.fill(-1)
}

// RotDisk turns one bit of a file on the disk over. The server must be down.
func (s *Server) RotDisk() { s.tell("disk rots: %s", s.volume.rot()) }

// TripDisk has a single operation of the disk stall or fail.
func (s *Server) TripDisk(t Trip) {
	s.tell("disk: %v", &t)
	s.volume.single(diskFault{syncs: s.w.o.Sync, trip: &t})
}

// HasCome tells whether the single operation has come that the disk was to be faulty at.
func (s *Server) HasCome() bool { return s.volume.hasCome() }

// MisdirectWrite has a write go over another file: after so many to a write-ahead log, or to any file. If it is to be
// the last one to a log, it goes where nothing is. From then on, until the disk is replaced, the power takes nothing
// from it: two faults are more than a server can notice.
func (s *Server) MisdirectWrite(after int, anyFile, last bool) {
	s.tell("disk is to misdirect a write; the last one: %v", last)
	s.volume.single(diskFault{syncs: s.w.o.Sync, stray: &stray{after: after, any: anyFile, last: last,
		tell: func(what string) { s.tell("disk has misdirected a write: %s", what) }}})
}

// LieDisk has the disk keep nothing of what it says that it has synced, which shows when LoseLies is called.
func (s *Server) LieDisk() {
	s.tell("disk lies")
	s.volume.lie()
}

// LoseLies takes what the disk has lied about: all of it, or parts. The server must be down.
func (s *Server) LoseLies(all bool) {
	s.tell("disk loses what it has lied about; all: %v", all)
	s.volume.lose(all)
}

// KeepLies has the disk keep all that it has lied about, and lie no more.
func (s *Server) KeepLies() { s.volume.keepLies() }

// Copied is a copy of a disk.
type Copied struct{ fs *vfs.MemFS }

// CopyDisk copies the disk as it would come back if the power failed.
func (s *Server) CopyDisk() Copied {
	s.tell("disk is copied")
	return Copied{s.volume.copied()}
}

// RestoreDisk puts a copy in the place of the disk. The server must be down.
func (s *Server) RestoreDisk(c Copied) {
	s.tell("disk is what it was")
	s.volume.restore(c.fs)
}

// AgeReads has the next life of the server read, once in so many times, what was on its disk when it was copied.
func (s *Server) AgeReads(c Copied, one int) {
	s.tell("disk is to read what it was, once in %d reads", one)
	s.volume.reading = &staleness{before: c.fs, one: one, tell: func(what string) {
		s.tell("disk has read what it was: %s", what)
	}}
}

// MendDisk ends what is wrong with the disk.
func (s *Server) MendDisk() {
	s.tell("disk is mended")
	s.volume.set(diskFault{syncs: s.w.o.Sync})
}

// Flushes tells whether a table is being written: something in memory is flushed, or tables are compacted.
func (s *Server) Flushes() bool { return s.life != nil && s.life.mount.tables.Load() > 0 }

// Logged is how often the server has logged a message, in all its lives.
func (s *Server) Logged(message string) int { return s.w.Story.count(s.name, message) }

// LastLogged is the last line with a message that the server has logged in this life; "" if there is none, or it was
// killed. A life that was killed may have more to say, also when the next one has begun.
func (s *Server) LastLogged(message string) string {
	if s.life == nil {
		return ""
	}
	return s.life.logged.last(message)
}

// Skew makes the date wrong.
func (s *Server) Skew(by time.Duration) {
	s.tell("clock is wrong by %v", by)
	s.clock.set(by, 0)
}

// Drift has the date, which is right now, gain so many seconds in each; less than 0: it is too slow. It is above -1.
func (s *Server) Drift(rate float64) {
	s.tell("clock gains %v seconds in each", rate)
	s.clock.set(0, rate)
}

// Host is its machine.
func (s *Server) Host() *network.Host { return s.host }

// randomness is what a process draws.
type randomness struct {
	mu     sync.Mutex
	source *rand.ChaCha8 // guarded by mu
}

// Read implements io.Reader.
func (r *randomness) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Read(p)
}

// noFigures is a process of which nothing is known.
type noFigures struct{}

func (noFigures) Process() instance.Process  { return instance.Process{Host: "sim", ID: 1} }
func (noFigures) Memory() (free, all uint64) { return 0, 0 }
func (noFigures) OpenFiles() int64           { return -1 }
func (noFigures) MaxOpenFiles() int64        { return -1 }
func (noFigures) MemoryLimit() int64         { return 0 }
