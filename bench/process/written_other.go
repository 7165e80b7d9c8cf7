//go:build !linux

package process

// writtenTo is not known here.
func writtenTo(string) (int64, error) { return 0, nil }
