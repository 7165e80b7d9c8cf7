//go:build !linux

package null

import "os"

// syncData syncs a file.
func syncData(f *os.File) error { return f.Sync() }
