package process

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// errOneProcessor refuses to divide what cannot be divided.
var errOneProcessor = errors.New("there is one processor only: a load and a server cannot have one each")

// Processors divides the machine between a load and the servers under it, so that neither waits for the other's turn
// on a processor. The zero value divides nothing.
type Processors struct {
	load, servers []int // by the kernel's numbers
}

// Divide gives the load the first half of the processors that this process may use, rounded up, and confines this
// process to it; the servers that are started afterwards get the other half.
func Divide() (Processors, error) {
	all, err := allowed()
	if err != nil {
		return Processors{}, err
	}
	if len(all) < 2 {
		return Processors{}, errOneProcessor
	}
	half := (len(all) + 1) / 2
	p := Processors{load: all[:half], servers: all[half:]}
	if err := confineProcess(p.load); err != nil {
		return Processors{}, fmt.Errorf("keep the load on its processors: %w", err)
	}
	runtime.GOMAXPROCS(len(p.load))
	return p, nil
}

// String says who has which processors.
func (p Processors) String() string {
	if len(p.servers) == 0 {
		return "load and servers share the processors"
	}
	return "load on processors " + list(p.load) + ", servers on " + list(p.servers)
}

// start starts cmd on the servers' processors. A child has those of the thread that started it.
func (p Processors) start(cmd *exec.Cmd) error {
	if len(p.servers) == 0 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := confineThread(p.servers); err != nil {
		return fmt.Errorf("give the server its processors: %w", err)
	}
	return errors.Join(cmd.Start(), confineThread(p.load))
}

// list writes numbers with commas between them.
func list(numbers []int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}
