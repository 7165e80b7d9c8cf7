package space

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Level says how low on room a server is. A higher one is worse.
type Level uint32

// The levels. What is measured is the room of a file system with the reserve counted in.
const (
	Ample    Level = iota
	Tight          // what can be given back is, before anything is refused
	Low            // there is less than the reserve and a Unit beside it: nothing more that grows should be taken
	Critical       // less than half of that is left, for removals and what a store writes by itself
)

// String is the level as logs and metrics show it.
func (l Level) String() string {
	switch l {
	case Ample:
		return "ample"
	case Tight:
		return "tight"
	case Low:
		return "low"
	default:
		return "critical"
	}
}

// ReserveName is the file that takes the room, in each directory that is on a file system of its own.
const ReserveName = "ZKD-RESERVE"

// The reserve by default, and the unit of the levels: a hundredth of the file system within bounds, but an eighth of a
// small one. The least is what a store may need to write before it can remove anything: what is in memory and not
// flushed (16 MiB of the state, 8 MiB of the log), and a compaction (storage scales those to a small file system). The
// most is a guess: of more an operator would rather decide.
const (
	unitShare      = 100
	unitBytesMin   = 64 << 20
	unitBytesMax   = 1 << 30
	unitShareSmall = 8
)

// Unit returns the reserve, by default, of a file system of that size.
func Unit(totalBytes int64) int64 {
	return min(max(totalBytes/unitShare, unitBytesMin), unitBytesMax, totalBytes/unitShareSmall)
}

// WarnPercent is the free part of a file system below which a warning is logged, as docs/operations.md says; it is
// taken back two percent above it.
const WarnPercent = 15

// Automatic is Options.ReserveBytes for the default of each file system.
const Automatic = -1

// Options says what a Guard watches.
type Options struct {
	FS     vfs.FS   // the operating system's; GetDiskUsage is asked for the room
	Dirs   []string // where the stores are: those on one file system count once. They need not exist yet
	Logger *slog.Logger
	// ReserveBytes is the size of each reserve; 0 is none, and Automatic the default. It is bounded by a quarter of the
	// file system.
	ReserveBytes int64
}

// Volume is what is known of one file system.
type Volume struct {
	Dir                   string
	TotalBytes, FreeBytes int64 // FreeBytes is what is left to write, without the reserve
	ReserveBytes          int64 // that are taken now, by the file
	WantedBytes           int64 // that the reserve should have
	Level                 Level
}

// room is what there would be without the reserve.
func (v *Volume) room() int64 { return v.FreeBytes + v.ReserveBytes }

// Percent is the part of the file system that is free; 100 if that is not known.
func (v *Volume) Percent() int64 {
	if v.TotalBytes <= 0 {
		return 100
	}
	return v.FreeBytes * 100 / v.TotalBytes
}

// lowBytes is the room below which the file system is low.
func (v *Volume) lowBytes() int64 { return v.WantedBytes + Unit(v.TotalBytes) }

// spent tells whether so little is free that stores need the reserve to go on. Not before: what is given back anybody
// may take.
func (v *Volume) spent() bool { return v.FreeBytes < Unit(v.TotalBytes)/spentShare }

// spentShare is the part of a Unit below which the reserve is given back without waiting for a write to fail: on some
// file systems not the write fails but the fsync, which is final. A guess.
const spentShare = 16

// Guard watches file systems. Its methods may be called by any goroutine.
type Guard struct {
	o       Options
	level   atomic.Uint32
	refused atomic.Int64 // failures to measure, of which the first is logged
	found   atomic.Pointer[[]Volume]

	mu      sync.Mutex // held while the disks are asked, which may take as long as they like
	volumes []*volume
}

// volume is a Volume as the guard keeps it. Guarded by Guard.mu.
type volume struct {
	Volume
	known  bool // it was measured
	warned bool // that little is free
	failed bool // the last attempt to make the reserve failed, and was logged
}

// New returns a guard of directories that may not exist yet. It measures nothing.
func New(o Options) *Guard {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Guard{o: o}
	for _, dir := range o.Dirs {
		if !slices.ContainsFunc(g.volumes, func(v *volume) bool { return v.Dir == dir }) {
			g.volumes = append(g.volumes, &volume{Volume: Volume{Dir: dir}})
		}
	}
	return g
}

// FS returns the file system of the options such that a write that fails for want of room gives the reserve back and is
// made once more.
func (g *Guard) FS() vfs.FS { return vfs.OnDiskFull(g.o.FS, g.onDiskFull) }

// Level is the worst of the levels of the file systems, as of the last look.
func (g *Guard) Level() Level { return Level(g.level.Load()) }

// Volumes returns what is known of the file systems, as of the last look. It never waits for a disk. The slice is not
// to be changed.
func (g *Guard) Volumes() []Volume {
	if found := g.found.Load(); found != nil {
		return *found
	}
	return nil
}

// publish makes what was measured what Volumes returns. The caller holds mu.
func (g *Guard) publish() {
	all := make([]Volume, 0, len(g.volumes))
	for _, v := range g.volumes {
		if v.known {
			all = append(all, v.Volume)
		}
	}
	g.found.Store(&all)
}

// Look measures the file systems and returns the level. It gives a reserve back where almost nothing else is left, and
// makes one anew where there is ample room. Costs a system call for each file system, but where it makes a reserve.
func (g *Guard) Look() Level {
	g.mu.Lock()
	defer g.mu.Unlock()
	worst := Ample
	for _, v := range slices.Clone(g.volumes) {
		if !v.known && !g.meet(v) {
			continue
		}
		g.measure(v)
		g.judge(v)
		switch {
		case v.ReserveBytes > 0 && v.spent():
			g.giveBack(v)
		case v.lacksReserve():
			g.make(v)
		}
		worst = max(worst, v.Level)
	}
	g.level.Store(uint32(worst))
	g.publish()
	return worst
}

// Assess measures the file systems as Look does, and changes nothing: what it returns has the reserves that Look would
// make. It is for a Guard that never looks.
func (g *Guard) Assess() []Volume {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range slices.Clone(g.volumes) {
		if !v.known && !g.meet(v) {
			continue
		}
		g.measure(v)
		g.judge(v)
		if v.lacksReserve() {
			v.FreeBytes, v.ReserveBytes = v.room()-v.WantedBytes, v.WantedBytes
		}
	}
	g.publish()
	return g.Volumes()
}

// lacksReserve tells whether there is ample room for a reserve of the size that is wanted, and it has another.
func (v *Volume) lacksReserve() bool {
	return v.Level < Low && v.ReserveBytes != v.WantedBytes && v.room() >= v.lowBytes()+v.lowBytes()/4
}

// meet looks at a directory for the first time: whether it exists, and is on another file system than those before it.
func (g *Guard) meet(v *volume) bool {
	info, err := g.o.FS.Stat(v.Dir)
	if err != nil {
		return false
	}
	for _, other := range g.volumes {
		if !other.known {
			continue
		}
		known, err := g.o.FS.Stat(other.Dir)
		if err == nil && known.DeviceID() == info.DeviceID() {
			g.volumes = slices.DeleteFunc(g.volumes, func(o *volume) bool { return o == v })
			return false
		}
	}
	v.known = true
	return true
}

// measure reads the room of a file system, and the size of its reserve. What cannot be measured is ample, as before
// there was a guard.
func (g *Guard) measure(v *volume) {
	usage, err := g.o.FS.GetDiskUsage(v.Dir)
	if err != nil {
		if g.refused.Add(1) == 1 {
			g.o.Logger.Warn("cannot read free disk space: assuming enough", slog.String("path", v.Dir),
				slog.Any("err", err))
		}
		v.TotalBytes, v.FreeBytes, v.WantedBytes, v.ReserveBytes = 0, 0, 0, 0
		return
	}
	v.TotalBytes, v.FreeBytes = int64(usage.TotalBytes), int64(usage.AvailBytes)
	v.WantedBytes = g.o.ReserveBytes
	if v.WantedBytes == Automatic {
		v.WantedBytes = Unit(v.TotalBytes)
	}
	v.WantedBytes = min(v.WantedBytes, v.TotalBytes/4)
	v.ReserveBytes = 0
	if info, err := g.o.FS.Stat(g.path(v)); err == nil {
		v.ReserveBytes = info.Size()
	}
}

// judge finds the level of a file system. One is left at a quarter more room than it is entered at.
func (g *Guard) judge(v *volume) {
	before, room, low := v.Level, v.room(), v.lowBytes()
	below := func(mark int64, l Level) bool {
		if before >= l {
			mark += mark / 4
		}
		return room < mark
	}
	switch {
	case below(low/2, Critical):
		v.Level = Critical
	case below(low, Low):
		v.Level = Low
	case below(low+low/2, Tight):
		v.Level = Tight
	default:
		v.Level = Ample
	}
	if v.Level != before {
		g.tell(v, before)
	}
	percent := v.Percent()
	if low := percent < WarnPercent; low != v.warned && (low || percent >= WarnPercent+2) {
		v.warned = low
		if low && v.Level < Low { // else it has been told
			g.o.Logger.Warn("disk space warning", g.attrs(v)...)
		}
	}
}

// tell logs a change of level.
func (g *Guard) tell(v *volume, before Level) {
	attrs := append(g.attrs(v), slog.String("level", v.Level.String()), slog.String("before", before.String()))
	switch {
	case v.Level < Low && before < Low: // nobody needs to know
		g.o.Logger.Debug("disk space level changed", attrs...)
	case v.Level < Low:
		g.o.Logger.Info("disk space recovered", attrs...)
	default:
		g.o.Logger.Warn("disk space low", attrs...)
	}
}

// attrs are what logs say of a file system.
func (g *Guard) attrs(v *volume) []any {
	return []any{
		slog.String("path", v.Dir), slog.Int64("free", v.FreeBytes), slog.Int64("total", v.TotalBytes),
		slog.Int64("reserve", v.ReserveBytes),
	}
}

// path is the file of a reserve.
func (g *Guard) path(v *volume) string { return g.o.FS.PathJoin(v.Dir, ReserveName) }

// onDiskFull gives back the reserves where a write may have failed: those of the file systems that have nothing left,
// and if none has, which a quota can bring about, all.
func (g *Guard) onDiskFull() {
	g.mu.Lock()
	defer g.mu.Unlock()
	given := false
	for _, all := range []bool{false, true} {
		for _, v := range slices.Clone(g.volumes) {
			if !v.known && !g.meet(v) {
				continue
			}
			g.measure(v)
			if v.ReserveBytes > 0 && (all || v.spent()) {
				g.giveBack(v)
				given = true
			}
		}
		if given {
			break
		}
	}
	g.publish()
	// Whoever asks before the next look is to know. Nothing else may have the room.
	if Level(g.level.Load()) < Low {
		g.level.Store(uint32(Low))
	}
}

// giveBack removes a reserve.
func (g *Guard) giveBack(v *volume) {
	if err := g.o.FS.Remove(g.path(v)); err != nil && !errors.Is(err, os.ErrNotExist) {
		g.o.Logger.Error("failed to release disk reserve", append(g.attrs(v), slog.Any("err", err))...)
		return
	}
	g.o.Logger.Warn("disk reserve released: disk full", g.attrs(v)...)
	v.FreeBytes += v.ReserveBytes
	v.ReserveBytes = 0
}

// make makes a reserve of the size that is wanted; a failure leaves none.
func (g *Guard) make(v *volume) {
	path := g.path(v)
	err := g.o.FS.Remove(path)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		v.FreeBytes += v.ReserveBytes
		v.ReserveBytes, err = 0, nil
		if v.WantedBytes > 0 {
			err = allocate(g.o.FS, path, v.WantedBytes)
		}
	}
	if err != nil {
		if !v.failed {
			g.o.Logger.Warn("failed to allocate disk reserve",
				append(g.attrs(v), slog.Any("err", err))...)
		}
		v.failed = true
		return
	}
	v.failed = false
	v.FreeBytes -= v.WantedBytes
	v.ReserveBytes = v.WantedBytes
	if v.WantedBytes > 0 {
		g.o.Logger.Info("disk reserve allocated", g.attrs(v)...)
	}
}

// LeastToOpen is how much room a start needs, in bytes, when even the reserve is gone: what the raft log in dir has in
// its write-ahead logs is written to tables once, and a little beside.
func LeastToOpen(fs vfs.FS, dir string) int64 {
	const beside = 4 << 20 // MANIFESTs, OPTIONS, a write-ahead log that begins
	least := int64(beside)
	names, err := fs.List(dir)
	if err != nil {
		names = nil
	}
	for _, name := range names {
		if info, err := fs.Stat(fs.PathJoin(dir, name)); err == nil && len(name) > 4 && name[len(name)-4:] == ".log" {
			least += info.Size()
		}
	}
	return least
}
