//go:build !linux

package process

import "errors"

// errNotHere is what dividing the processors fails with where the kernel has no call for it.
var errNotHere = errors.New("processors can be divided on Linux only")

func allowed() ([]int, error)    { return nil, errNotHere }
func confineThread([]int) error  { return errNotHere }
func confineProcess([]int) error { return errNotHere }
