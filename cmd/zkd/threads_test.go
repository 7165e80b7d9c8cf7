package main

import (
	"runtime"
	"testing"
)

func TestFewProcessorsHaveFourThreads(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for _, c := range []struct {
		processors, want int
		asked            string
	}{{1, 4, ""}, {2, 4, ""}, {4, 4, ""}, {8, 8, ""}, {2, 2, "2"}} {
		t.Setenv("GOMAXPROCS", c.asked)
		runtime.GOMAXPROCS(c.processors)
		raiseThreads()
		if got := runtime.GOMAXPROCS(0); got != c.want {
			t.Errorf("%d processors, GOMAXPROCS=%q: %d threads, want %d", c.processors, c.asked, got, c.want)
		}
	}
}
