package instance

import (
	"net"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/conf"
	"zkd/server/fourletter"
)

// shownConfiguration is what the four-letter command conf shows.
func shownConfiguration(c *conf.Config) fourletter.Configuration {
	shown := fourletter.Configuration{
		ClientPort: portOf(c.Client.Addr), SecureClientPort: portOf(c.Client.SecureAddr),
		DataDir:    filepath.Join(c.Storage.DataDir, "version-2"),
		DataLogDir: filepath.Join(c.Storage.DataLogDir, "version-2"),
		TickTime:   c.Session.TickTime, MaxClientCnxns: c.Client.MaxPerIP,
		MinSessionTimeout: c.Session.MinTimeout, MaxSessionTimeout: c.Session.MaxTimeout,
		ClientPortListenBacklog: c.Client.Backlog, ServerID: shownID(&c.Ensemble),
	}
	if c.Ensemble.Distributed {
		shown.Member = memberConf(&c.Ensemble)
	}
	return shown
}

// shownID is the number that the command conf shows: a server alone has none there, whatever is in its file myid
// (org.apache.zookeeper.server.ZooKeeperServer.getServerId).
func shownID(e *conf.Ensemble) int64 {
	if !e.Distributed {
		return 0
	}
	return e.MyID
}

// electionAlg is what conf shows as the kind of election: ZooKeeper has no other.
const electionAlg = 3

// memberConf is what conf shows of a member of an ensemble; the server adds the members.
func memberConf(e *conf.Ensemble) *fourletter.MemberConf {
	m := &fourletter.MemberConf{InitLimit: e.InitLimit, SyncLimit: e.SyncLimit, ElectionAlg: electionAlg,
		Observer: e.Observer}
	if own, ok := e.Own(); ok {
		m.QuorumPort, m.ElectionPort = int(own.Addresses[0].PeerPort), int(own.Addresses[0].ElectionPort)
	}
	return m
}

// portOf returns the port of host:port.
func portOf(addr string) int {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return -1
	}
	return n
}

// environment is what the four-letter command envi shows: ZooKeeper's keys, as far as they have a meaning outside a
// JVM.
func environment(s System) func() []fourletter.Setting {
	return func() []fourletter.Setting {
		p := s.Process()
		free, all := s.Memory()
		return []fourletter.Setting{
			{Key: "host.name", Value: p.Host},
			{Key: "java.version", Value: "<NA>"},
			{Key: "java.vendor", Value: "<NA>"},
			{Key: "java.home", Value: "<NA>"},
			{Key: "java.class.path", Value: "<NA>"},
			{Key: "java.library.path", Value: "<NA>"},
			{Key: "java.io.tmpdir", Value: p.TempDir},
			{Key: "java.compiler", Value: runtime.Version()},
			{Key: "os.name", Value: runtime.GOOS},
			{Key: "os.arch", Value: runtime.GOARCH},
			{Key: "os.version", Value: "<NA>"},
			{Key: "user.name", Value: p.User},
			{Key: "user.home", Value: p.Home},
			{Key: "user.dir", Value: p.Dir},
			{Key: "os.memory.free", Value: megabytes(free)},
			{Key: "os.memory.max", Value: megabytes(all)},
			{Key: "os.memory.total", Value: megabytes(all)},
		}
	}
}

// megabytes writes a size as ZooKeeper does.
func megabytes(n uint64) string { return strconv.FormatUint(n>>20, 10) + "MB" }

// DirBytes adds up the files of a directory; one that goes away meanwhile does not count.
func DirBytes(fs vfs.FS, dir string) (n int64) {
	names, _ := fs.List(dir) // it may be gone by now
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		switch info, err := fs.Stat(path); {
		case err != nil:
		case info.IsDir():
			n += DirBytes(fs, path)
		default:
			n += info.Size()
		}
	}
	return n
}
