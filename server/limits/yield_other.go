//go:build !linux

package limits

// yieldProcessor does nothing: the kernel decides.
func yieldProcessor() {}
