package main

import (
	"io/fs"
	"math"
	"testing"
)

// machine is a file system of a few files.
type machine map[string]string

func (m machine) read(name string) ([]byte, error) {
	text, ok := m[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

func TestMemoryMax(t *testing.T) {
	const (
		memory = "MemFree: 1 kB\nMemTotal:       4096 kB\n" // 4 MiB
		none   = math.MaxInt64
	)
	for name, test := range map[string]struct {
		machine machine
		golang  int64
		want    int64
		cgroup  int64
	}{
		"nothing known": {machine{}, none, 0, 0},
		"the machine's": {machine{machineInfo: memory}, none, 4 << 20, 0},
		"Go's":          {machine{machineInfo: memory}, 1 << 20, 1 << 20, 0},
		"version 2": {machine{machineInfo: memory, ownCgroups: "0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "2097152\n"}, none, 2 << 20, 2 << 20},
		"version 2, of the one around": {machine{machineInfo: memory, ownCgroups: "0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "1048576\n"},
			none, 1 << 20, 1 << 20},
		"version 2, in a namespace": {machine{machineInfo: memory, ownCgroups: "0::/\n",
			"/sys/fs/cgroup/memory.max": "3145728\n"}, none, 3 << 20, 3 << 20},
		"version 1": {machine{machineInfo: memory,
			ownCgroups: "5:cpu,cpuacct:/c\n4:memory:/docker/x\n0::/\n",
			"/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "9223372036854771712\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":          "2097152\n"}, none, 2 << 20, 2 << 20},
		"version 1, in a container that sees another path": {machine{machineInfo: memory,
			ownCgroups: "4:memory:/docker/x\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "1048576\n"}, none, 1 << 20, 1 << 20},
		"no limit": {machine{machineInfo: memory, ownCgroups: "0::/a\n",
			"/sys/fs/cgroup/a/memory.max": "max\n"}, none, 4 << 20, 0},
	} {
		if got := memoryMax(test.machine.read, test.golang); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
		if got := cgroupLimit(test.machine.read); got != test.cgroup {
			t.Errorf("%s: the cgroup allows %d, want %d", name, got, test.cgroup)
		}
	}
}
