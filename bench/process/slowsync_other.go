//go:build !linux

package process

import (
	"errors"
	"os"
	"time"
)

// errNoSlowSync is what a slow disk fails with where the kernel has no call for it.
var errNoSlowSync = errors.New("a slow disk can be had on Linux only")

// BecomeSlow is for Linux.
func BecomeSlow([]string) error { return errNoSlowSync }

// DelaySyncs is for Linux.
func DelaySyncs(time.Duration) error { return errNoSlowSync }

func slowPair() (server, delayer *os.File, err error) { return nil, nil, errNoSlowSync }
