package instance

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/quorum/clock"
	"zkd/server/instance/peers"
	"zkd/server/instance/tlsstores"
)

// World is what a server reaches that is not zkd. All of it is needed, and may be used by any goroutine.
type World struct {
	Clock   clock.Clock
	FS      vfs.FS // of the data
	Files   Files
	Network Network
	Random  io.Reader // of secrets, and of the seeds of what is none: crypto/rand.Reader
	System  System
}

// Files are what the operator names beside the data, and what the server writes for him.
type Files interface {
	peers.Files
	// Append opens a file to write at its end, or makes it: server/audit.OpenFile.
	Append(name string) (io.WriteCloser, error)
}

// Network is TCP, the names of addresses, and what TLS may ask for elsewhere.
type Network interface{ peers.Network }

// System tells of the process and its machine, for figures.
type System interface {
	// Process says what does not change; what is not known is empty.
	Process() Process
	// Memory is what of the heap is free, and all that the process has of the system, in bytes.
	Memory() (free, all uint64)
	// MemoryLimit is how much memory the process may use, in bytes; 0 where nothing says it.
	MemoryLimit() int64
	// OpenFiles is the number of open file descriptors, MaxOpenFiles its limit; -1 where the system does not say.
	OpenFiles() int64
	MaxOpenFiles() int64
}

// Process is where and as whom a server runs.
type Process struct {
	Host, Dir, TempDir string
	User, Home         string
	ID                 int // 0 where nothing but the operating system knows it
}

// stores is where key and trust stores come from in this world.
func (w *World) stores() tlsstores.Source {
	return tlsstores.Source{Clock: w.Clock, Files: w.Files, Network: w.Network}
}
