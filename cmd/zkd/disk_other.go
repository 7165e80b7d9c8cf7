//go:build !linux && !darwin

package main

import "errors"

// diskRoom is not known here.
func diskRoom(string) (free, total uint64, err error) {
	return 0, 0, errors.New("not known on this system")
}
