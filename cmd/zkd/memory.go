package main

import (
	"bytes"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// The part of the cgroup's limit that Go may use before the collector works harder: what is not Go's, as the page cache
// that the kernel counts in, needs some of it (docs/decisions/0038-what-clients-hold.md).
const memoryPercent = 90

// limitMemory sets Go's memory limit to most of what the cgroup allows, unless GOMEMLIMIT is set.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := cgroupLimit(os.ReadFile); limit > 0 {
		debug.SetMemoryLimit(limit / 100 * memoryPercent)
	}
}

// memoryMax is how much memory the process may use: the least of what Go is told to use, of what the cgroup allows, and
// of what the machine has; 0 if nothing says it. read is os.ReadFile, golang is Go's limit.
func memoryMax(read func(string) ([]byte, error), golang int64) int64 {
	least := int64(math.MaxInt64)
	for _, limit := range []int64{golang, cgroupLimit(read), machineMemory(read)} {
		if limit > 0 {
			least = min(least, limit)
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// Where Linux tells of cgroups and of its memory.
const (
	ownCgroups  = "/proc/self/cgroup"
	cgroupRoot  = "/sys/fs/cgroup"
	machineInfo = "/proc/meminfo"
)

// cgroupLimit is the least memory limit of the process's cgroup and of those around it, of version 2 or 1
// (cgroups(7)); 0 if there is none. In a container with a namespace of its own the root is the container's.
func cgroupLimit(read func(string) ([]byte, error)) int64 {
	least := int64(0)
	take := func(file string) {
		text, err := read(file)
		if err != nil {
			return // not there, as in the root
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || n <= 0 || n >= unlimited { // "max" is no number
			return
		}
		if least == 0 || n < least {
			least = n
		}
	}
	groups, err := read(ownCgroups)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(groups) { // hierarchy:controllers:path
		parts := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(parts) < 3 {
			continue
		}
		root, file := path.Join(cgroupRoot, "memory"), "memory.limit_in_bytes"
		if parts[0] == "0" && parts[1] == "" {
			root, file = cgroupRoot, "memory.max"
		} else if !strings.Contains(","+parts[1]+",", ",memory,") {
			continue
		}
		for at := path.Join("/", parts[2]); ; at = path.Dir(at) {
			take(path.Join(root, at, file))
			if at == "/" {
				break
			}
		}
	}
	return least
}

// unlimited is at least what version 1 says where there is no limit: the largest number of whole pages.
const unlimited = math.MaxInt64 / 2

// machineMemory is the memory of the machine, 0 where the system does not say.
func machineMemory(read func(string) ([]byte, error)) int64 {
	text, err := read(machineInfo)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		name, rest, _ := strings.Cut(string(line), ":")
		fields := strings.Fields(rest)
		if name != "MemTotal" || len(fields) == 0 {
			continue
		}
		if kib, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			return kib << 10
		}
	}
	return 0
}
