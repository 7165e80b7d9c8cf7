package main

import (
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"zkd/conf"
	"zkd/server/fourletter"
)

// shownConfiguration is what the four-letter word conf shows.
func (i *instance) shownConfiguration() fourletter.Configuration {
	c := i.config
	shown := fourletter.Configuration{
		ClientPort: portOf(c.Client.Addr), SecureClientPort: portOf(c.Client.SecureAddr),
		DataDir:    filepath.Join(c.Storage.DataDir, "version-2"),
		DataLogDir: filepath.Join(c.Storage.DataLogDir, "version-2"),
		TickTime:   c.Session.TickTime, MaxClientCnxns: c.Client.MaxPerIP,
		MinSessionTimeout: c.Session.MinTimeout, MaxSessionTimeout: c.Session.MaxTimeout,
		ClientPortListenBacklog: c.Client.Backlog, ServerID: max(c.Ensemble.MyID, 0),
	}
	if c.Ensemble.Distributed {
		shown.Member = memberConf(&c.Ensemble)
	}
	return shown
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

// environment is what the four-letter word envi shows: ZooKeeper's keys, as far as they have a meaning outside a JVM.
func environment(_ *conf.Config) func() []fourletter.Setting {
	return func() []fourletter.Setting {
		host, _ := os.Hostname() // shown as empty
		dir, _ := os.Getwd()     // shown as empty
		var name, home string    // shown as empty if the user is not known
		if u, err := user.Current(); err == nil {
			name, home = u.Username, u.HomeDir
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return []fourletter.Setting{
			{Key: "host.name", Value: host},
			{Key: "java.version", Value: "<NA>"},
			{Key: "java.vendor", Value: "<NA>"},
			{Key: "java.home", Value: "<NA>"},
			{Key: "java.class.path", Value: "<NA>"},
			{Key: "java.library.path", Value: "<NA>"},
			{Key: "java.io.tmpdir", Value: os.TempDir()},
			{Key: "java.compiler", Value: runtime.Version()},
			{Key: "os.name", Value: runtime.GOOS},
			{Key: "os.arch", Value: runtime.GOARCH},
			{Key: "os.version", Value: "<NA>"},
			{Key: "user.name", Value: name},
			{Key: "user.home", Value: home},
			{Key: "user.dir", Value: dir},
			{Key: "os.memory.free", Value: megabytes(m.HeapIdle - m.HeapReleased)},
			{Key: "os.memory.max", Value: megabytes(m.Sys)},
			{Key: "os.memory.total", Value: megabytes(m.Sys)},
		}
	}
}

// megabytes writes a size as ZooKeeper does.
func megabytes(n uint64) string { return strconv.FormatUint(n>>20, 10) + "MB" }

// dirSizes are the sizes of the two directories.
func (i *instance) dirSizes() fourletter.DirSizes {
	return fourletter.DirSizes{DataBytes: dirBytes(i.dir.StateDir()), LogBytes: dirBytes(i.dir.RaftLogDir())}
}

// dirBytes adds up the files of a directory; one that goes away meanwhile does not count.
func dirBytes(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// openFiles is the number of open file descriptors, -1 where the system does not say.
func openFiles() int64 {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return int64(len(entries))
}

// maxOpenFiles is the limit of open file descriptors, -1 where the system does not say.
func maxOpenFiles() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return -1
	}
	return int64(limit.Cur)
}
