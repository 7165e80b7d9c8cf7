package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// allowed returns the processors that this thread may use, in ascending order.
func allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("ask which processors there are: %w", err)
	}
	var all []int
	for cpu := 0; len(all) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all, nil
}

// confineThread has the calling thread use these processors alone.
func confineThread(cpus []int) error { return confine(0, cpus) }

// confineProcess has every thread of this process use these processors alone, those to come as well: a thread begins
// with what the one has that makes it.
func confineProcess(cpus []int) error {
	const passes = 2 // the second finds those that were made by a thread that the first had not come to
	for range passes {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list the threads: %w", err)
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil {
				return fmt.Errorf("thread %q: %w", task.Name(), err)
			}
			if err := confine(tid, cpus); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// confine has a thread use these processors alone; 0 is the calling one.
func confine(tid int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("use processors %s alone: %w", list(cpus), err)
	}
	return nil
}
