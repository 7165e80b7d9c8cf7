package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// ticksPerSecond is the unit of the times in /proc/PID/stat: USER_HZ, which is 100 on every Linux that Go runs on.
const ticksPerSecond = 100

// Usage is what a process and its children use.
type Usage struct {
	CPU      time.Duration // user and system time of all of their lives, in steps of 10 ms
	RSSBytes int64         // resident set, shared pages counted in each
}

// UsageOf reads the usage of the process pid and of all its descendants that live. Linux only. Time that dead
// children used counts once their parent has waited for them.
func UsageOf(pid int) (Usage, error) {
	all, err := readAll("/proc")
	if err != nil {
		return Usage{}, err
	}
	if _, ok := all[pid]; !ok {
		return Usage{}, fmt.Errorf("process %d is not there: %w", pid, os.ErrNotExist)
	}
	var sum Usage
	for id, p := range all { // a sum, so the order does not matter
		if descends(all, id, pid) {
			sum.CPU += p.cpu
			sum.RSSBytes += p.rss
		}
	}
	return sum, nil
}

// Own is the processor time that this process has used, its children apart; 0 where that cannot be known.
func Own() time.Duration {
	line, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	own, err := parseStat(line)
	if err != nil {
		return 0
	}
	return own.cpu - own.ofChildren
}

// stat is what one line of /proc/PID/stat says of a process.
type stat struct {
	parent     int
	cpu        time.Duration // of those children too that were waited for
	ofChildren time.Duration
	rss        int64
}

// descends reports whether id is root or below it.
func descends(all map[int]stat, id, root int) bool {
	for range len(all) + 1 { // bounded, should /proc show a loop
		if id == root {
			return true
		}
		p, ok := all[id]
		if !ok || p.parent == 0 {
			return false
		}
		id = p.parent
	}
	return false
}

func readAll(proc string) (map[int]stat, error) {
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no processes in %s: usage can be read on Linux only", proc)
	}
	all := make(map[int]stat, len(files))
	for _, file := range files {
		line, err := os.ReadFile(file) //nolint:gosec // a file of /proc
		if err != nil {
			continue // the process has gone since
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue // not a process
		}
		if all[id], err = parseStat(line); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	}
	return all, nil
}

// parseStat reads a line of /proc/PID/stat (proc_pid_stat(5)): the name in parentheses may hold anything, so fields
// are counted from its end.
func parseStat(line []byte) (stat, error) {
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	const state = 3 // number of the first field after the name
	if len(fields) < 24-state+1 {
		return stat{}, errors.New("too few fields")
	}
	number := func(n int) int64 {
		v, err := strconv.ParseInt(string(fields[n-state]), 10, 64)
		if err != nil {
			return 0 // the kernel writes numbers
		}
		return v
	}
	const parent, utime, stime, cutime, cstime, rss = 4, 14, 15, 16, 17, 24
	duration := func(ticks int64) time.Duration { return time.Duration(ticks) * time.Second / ticksPerSecond }
	ofChildren := duration(number(cutime) + number(cstime))
	return stat{
		parent:     int(number(parent)),
		cpu:        duration(number(utime)+number(stime)) + ofChildren,
		ofChildren: ofChildren,
		rss:        number(rss) * int64(os.Getpagesize()),
	}, nil
}
