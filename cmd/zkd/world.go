package main

import (
	"context"
	cryptorand "crypto/rand"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/server/audit"
	"zkd/server/instance"
	"zkd/server/instance/tlsstores"
)

// realWorld is this machine. It is made before tuneCollector runs, which sets limits of its own.
func realWorld(logger *slog.Logger) instance.World {
	return instance.World{Clock: clock.Real(), FS: vfs.Default, Files: osFiles{}, Network: newOSNetwork(logger),
		Random: cryptorand.Reader, System: osSystem{goLimit: debug.SetMemoryLimit(-1)}}
}

// realStores is where the key and trust stores of this machine come from.
func realStores() tlsstores.Source {
	return tlsstores.Source{Clock: clock.Real(), Files: osFiles{}, Network: newOSNetwork(slog.New(slog.DiscardHandler))}
}

// osFiles are the files of the machine.
type osFiles struct{ conf.DiskFiles }

// Stat implements instance.Files.
func (osFiles) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Append implements instance.Files.
func (osFiles) Append(name string) (io.WriteCloser, error) { return audit.OpenFile(name, clock.Real()) }

// fetchWithin bounds what a TLS handshake fetches. Java waits 15 s for a revocation list.
const fetchWithin = 15 * time.Second

// osNetwork is the network of the machine.
type osNetwork struct {
	logger *slog.Logger
	client *http.Client
}

// newOSNetwork returns the network of the machine.
func newOSNetwork(logger *slog.Logger) osNetwork {
	return osNetwork{logger: logger, client: &http.Client{Timeout: fetchWithin}}
}

// Listen implements instance.Network.
func (n osNetwork) Listen(ctx context.Context, address string, backlog int) (net.Listener, error) {
	return listen(ctx, address, backlog, n.logger)
}

// Dial implements instance.Network.
func (osNetwork) Dial(ctx context.Context, address string, keepAlive bool) (net.Conn, error) {
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: keepAlive}}
	return dialer.DialContext(ctx, "tcp", address)
}

// LookupNetIP implements instance.Network.
func (osNetwork) LookupNetIP(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// LookupAddr implements instance.Network.
func (osNetwork) LookupAddr(ctx context.Context, address string) ([]string, error) {
	return net.DefaultResolver.LookupAddr(ctx, address)
}

// Do implements instance.Network.
func (n osNetwork) Do(r *http.Request) (*http.Response, error) {
	return n.client.Do(r) //nolint:gosec // the address is that of a member, or the configuration's
}

// osSystem is this process.
type osSystem struct {
	goLimit int64 // Go's memory limit, as the operator or the cgroup sets it
}

// Process implements instance.System.
func (osSystem) Process() instance.Process {
	p := instance.Process{TempDir: os.TempDir()}
	p.Host, _ = os.Hostname() // shown as empty
	p.Dir, _ = os.Getwd()     // shown as empty
	if u, err := user.Current(); err == nil {
		p.User, p.Home = u.Username, u.HomeDir
	}
	return p
}

// Memory implements instance.System.
func (osSystem) Memory() (free, all uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapIdle - m.HeapReleased, m.Sys
}

// MemoryLimit implements instance.System.
func (s osSystem) MemoryLimit() int64 { return memoryMax(os.ReadFile, s.goLimit) }

// OpenFiles implements instance.System.
func (osSystem) OpenFiles() int64 {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return int64(len(entries))
}

// MaxOpenFiles implements instance.System.
func (osSystem) MaxOpenFiles() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return -1
	}
	return int64(limit.Cur)
}
