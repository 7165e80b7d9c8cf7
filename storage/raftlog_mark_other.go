//go:build !unix

package storage

// mapShared has no mapping to give on this system: marks are written with write calls.
func mapShared(uintptr, int) ([]byte, error) { return nil, nil }

// unmapShared has nothing to undo.
func unmapShared([]byte) error { return nil }
