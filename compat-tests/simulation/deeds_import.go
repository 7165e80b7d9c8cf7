package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"zkd/compat-tests/faults"
	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/server/sim"
)

// ImportData is the kind of an import of what an Apache ZooKeeper server has left, with which the ensemble begins.
const ImportData Kind = "import"

// importKinds are what befalls the machine while it imports.
var importKinds = []Kind{Kill, Power, Power, FillDisk, FailOne, StallOne}

// importSetting is the line of each zoo.cfg with which a start imports.
const importSetting = "zkd.importOnStart=true"

// What is drawn for an import.
const (
	importPercent = 10
	importSteps   = 400                    // transactions of ZooKeeper's, at most
	importDeeds   = 4                      // what befalls it, at most
	importBroken  = 150 * time.Millisecond // after which it is, at most: an import takes about so long
	importOthers  = 5 * time.Second        // after which the other servers start
	importRoom    = 200                    // KiB on a disk that is full, at most
	importZxid    = 5 << 32                // the last transaction of ZooKeeper's former leader
	importRate    = 64 << 10               // bytes a second that a snapshot may take, at least: all others wait for one
)

// Import is what an Apache ZooKeeper server has left on the disk of one server, and how it is imported.
type Import struct {
	Whom    int           // a participant
	Steps   int           // transactions of ZooKeeper's, drawn from the seed
	Outside bool          // by zkd import, else by the start
	Deeds   []Deed        // what befalls the machine meanwhile, one after the other
	Others  time.Duration // after which the other servers start
}

// drawImport draws, from numbers of its own, whether the ensemble begins with data of ZooKeeper's. The server that has
// it starts first, as docs/migration.md says.
func (p *Plan) drawImport() {
	r := drawer{rand.New(rand.NewPCG(p.Seed, 0x696d706f7274))} //nolint:gosec // a run must repeat
	if !r.chance(importPercent) || p.Before || p.Starts != nil || p.absent() >= 0 {
		return
	}
	if rate := p.setting("zkd.snapshotRate", 0); rate > 0 && rate < importRate {
		return
	}
	p.Import = &Import{Whom: r.IntN(p.Participants), Steps: r.IntN(importSteps),
		Outside: r.chance(50), Others: r.upTo(importOthers)}
	for range r.IntN(importDeeds + 1) {
		d := r.deed(p, importKinds, 0)
		d.For, d.Whom = r.upTo(importBroken), p.Import.Whom
		p.Import.Deeds = append(p.Import.Deeds, d)
	}
}

// importing is the import of a run.
type importing struct {
	*Import
	g    *play
	left *sim.Left // by ZooKeeper
}

// heardOfData is what a server without data logs when it has heard of imported data, from when on it founds nothing
// without it. Before that it may, as docs/migration.md says: who has the data must be there.
const heardOfData = "another server has imported data, or belongs to those that have it"

// first has one server import what ZooKeeper has left, with all that befalls it. The others start later. It returns
// when they know.
func (m *importing) first() {
	g := m.g
	s := g.w.Servers[m.Whom]
	left, err := s.LeaveZooKeeper(g.plan.Seed, m.Steps)
	if err != nil {
		g.violated("write what ZooKeeper has left: %v", err)
		return
	}
	m.left = left
	g.done[ImportData]++
	for i := range m.Deeds {
		m.disturb(&m.Deeds[i])
	}
	// An import has done its work a moment before it ends; it is no server that ends by itself then.
	for end := time.Now().Add(servesWithin); s.ImportPending() || m.Outside && !s.Stopped(); {
		if time.Now().After(end) {
			g.violated("not within %v: what ZooKeeper has left is imported", servesWithin)
			return
		}
		if s.ImportPending() {
			m.begin()
		}
		time.Sleep(importBroken)
		s.Ended()
	}
	for i, other := range g.w.Servers {
		if i != m.Whom {
			g.after(m.Others, other.Start)
		}
	}
	g.again()
	s.Start()
	g.sleepUntil(time.Now().Add(m.Others))
	g.await(servesWithin, "the others have heard of the imported data", func() bool {
		for i, other := range g.w.Servers {
			if member, _ := g.belongs(i); i != m.Whom && member && other.Logged(heardOfData) == 0 {
				return false
			}
		}
		return true
	})
}

// begin imports, or starts the server if nothing is to be imported any more.
func (m *importing) begin() {
	s := m.g.w.Servers[m.Whom]
	s.Ended() // then it is down
	if m.Outside && s.ImportPending() {
		s.Import()
	} else {
		s.Start()
	}
}

// disturb has something befall the machine while it imports. Nothing else befalls anybody meanwhile.
func (m *importing) disturb(d *Deed) {
	g := m.g
	s := g.w.Servers[d.Whom]
	g.w.Story.Tell("", "-- %v (s%d), while it imports", d, s.Number)
	switch d.What {
	case FillDisk:
		s.FillDisk(int64(d.Much%importRoom) << 10)
	case FailOne, StallOne:
		t := trips[d.Much%len(trips)]
		t.After, t.Stalls = d.Much/len(trips)%tripMost, d.What == StallOne
		s.TripDisk(t)
	}
	m.begin()
	time.Sleep(d.For)
	if d.What == Power {
		s.PowerOff()
	} else {
		s.Kill()
	}
	s.MendDisk()
	s.FreeDisk()
}

// check sees to it that all servers hold what was imported, but for what ends with its session.
func (m *importing) check() {
	g := m.g
	if m.left == nil || g.failed() {
		return
	}
	for i, server := range g.w.Servers {
		if member, _ := g.belongs(i); !member || !g.serves(i) {
			continue
		}
		o := g.options(4000+i, server.Addrs())
		o.Identities = []faults.Identity{{User: target.SuperUser, Password: target.SuperPassword}}
		s, err := faults.Open(o)
		if err != nil {
			g.violated("no session on server %d: %v", server.ID, err)
			return
		}
		m.compare(s, int(server.Number)) //nolint:gosec // small
		_, _ = s.Close()                 // it expires else
	}
}

// compare compares what one server holds.
func (m *importing) compare(s *faults.Session, number int) {
	g := m.g
	for i := range m.left.Kept {
		n := &m.left.Kept[i]
		reply, data, stat, err := s.GetData(n.Path, false)
		want := stat // children may have come and gone, and counts of quotas are the servers' own
		want.Czxid, want.Mzxid, want.Ctime, want.Mtime = n.Stat.Czxid, n.Stat.Mzxid, n.Stat.Ctime, n.Stat.Mtime
		want.Version, want.Aversion, want.EphemeralOwner = n.Stat.Version, n.Stat.Aversion, 0
		if err != nil || reply.Err != jute.OK || data != n.Data || stat != want {
			g.violated("server %d has not what was imported: %s is %q, %+v (%v, %v), and was %q, %+v", number, n.Path,
				data, stat, reply.Err, err, n.Data, want)
			return
		}
	}
	for _, path := range m.left.Gone { // a leader that has just begun has given its session all of its time again
		what := fmt.Sprintf("an ephemeral of an imported session goes on server %d: %s", number, path)
		if !g.await(endsWithin, what, func() bool {
			for _, c := range g.clients {
				if err := c.Ping(); err != nil {
					g.violated("%v", err)
				}
			}
			reply, _, _, err := s.GetData(path, false)
			return err == nil && reply.Err == jute.NoNode
		}) {
			return
		}
	}
}
