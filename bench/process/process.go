package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ConfigMark stands for the path of the zoo.cfg in a command.
const ConfigMark = "{cfg}"

// Command says how to start a server: an argument vector in which ConfigMark stands for the path of the zoo.cfg.
type Command struct {
	Name string // for messages and tables
	Argv []string
	Env  []string // NAME=value pairs added to this process's environment
	On   Processors
	Slow SlowSync
}

// SlowSync makes the disk of a server slower than it is: each fsync and fdatasync takes Delay longer. The zero value
// leaves it as it is.
type SlowSync struct {
	Delay time.Duration
	// Program is a command line, to which one of two arguments is added: SlowServer, and the server's command line, for
	// BecomeSlow, or SlowDelay and a duration, for DelaySyncs.
	Program []string
}

// Arguments of a SlowSync's program.
const (
	SlowServer = "server"
	SlowDelay  = "delay"
)

// ParseCommand splits a command line at white space; there is no quoting. A line without ConfigMark gets it at its
// end.
func ParseCommand(name, line string) (Command, error) {
	argv := strings.Fields(line)
	if len(argv) == 0 {
		return Command{}, fmt.Errorf("the command for %s is empty: give a program and its arguments", name)
	}
	if !strings.Contains(line, ConfigMark) {
		argv = append(argv, ConfigMark)
	}
	return Command{Name: name, Argv: argv}, nil
}

// Process is a program that serves on a directory, where it is started again and again. Its methods are for one
// goroutine.
type Process struct {
	Command Command // of the next start
	Dir     string  // where it runs; holds zoo.cfg, the data and the log

	cmd    *exec.Cmd
	exited chan struct{} // closed once cmd has been waited for; nil before the first start and after End
	slower *exec.Cmd     // holds up the process's fsyncs; nil if nobody does
}

// DataDir is where the server keeps its state.
func (p *Process) DataDir() string { return filepath.Join(p.Dir, "data") }

// ConfigPath is the server's zoo.cfg.
func (p *Process) ConfigPath() string { return filepath.Join(p.Dir, "zoo.cfg") }

// LogPath is where the server's output goes, over all of its starts.
func (p *Process) LogPath() string { return filepath.Join(p.Dir, "server.log") }

// LogTail returns the last lines of what the server has printed.
func (p *Process) LogTail(lines int) string {
	text, err := os.ReadFile(p.LogPath())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Launch starts the process and returns at once. It does nothing when the process is running.
func (p *Process) Launch() error {
	if p.Running() {
		return nil
	}
	logFile, err := os.OpenFile(p.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	argv := make([]string, len(p.Command.Argv))
	for i, arg := range p.Command.Argv {
		argv[i] = strings.ReplaceAll(arg, ConfigMark, p.ConfigPath())
	}
	defer func() { _ = logFile.Close() }() // the children have their own descriptors
	p.endSlower()                          // of a process that has ended by itself
	slow := p.Command.Slow
	if slow.Delay > 0 {
		argv = slices.Concat(slow.Program, []string{SlowServer}, argv)
	}
	cmd := p.child(argv, logFile)
	if slow.Delay > 0 {
		mine, theirs, err := slowPair()
		if err != nil {
			return err
		}
		defer func() { _, _ = mine.Close(), theirs.Close() }() // as the log
		cmd.ExtraFiles = []*os.File{mine}
		p.slower = p.child(slices.Concat(slow.Program, []string{SlowDelay, slow.Delay.String()}), logFile)
		p.slower.ExtraFiles = []*os.File{theirs}
		if err := p.Command.On.start(p.slower); err != nil {
			p.slower = nil
			return fmt.Errorf("start what slows %s down: %w", p.Command.Name, err)
		}
	}
	if err := p.Command.On.start(cmd); err != nil {
		p.endSlower()
		return fmt.Errorf("start %s: %w", p.Command.Name, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // a killed server has an error here
		close(exited)
	}()
	p.cmd, p.exited = cmd, exited
	return nil
}

// child returns a child that has not begun, in a group of its own.
func (p *Process) child(argv []string, logFile *os.File) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // the operator's command; End ends it
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, logFile, logFile
	cmd.Env = append(os.Environ(), p.Command.Env...)
	cmd.SysProcAttr = ownGroup()
	return cmd
}

// endSlower ends who holds up the fsyncs of a process that has ended.
func (p *Process) endSlower() {
	if p.slower != nil {
		_ = p.slower.Process.Kill() // it may have ended with the server
		_ = p.slower.Wait()         // killed
		p.slower = nil
	}
}

// Running reports whether the process is there, paused or not.
func (p *Process) Running() bool {
	if p.exited == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Exited is closed when the process that was launched last has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// State says how the process that was launched last has ended; nil if it has not.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// PID is the number of the running process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Pause stops the process where it is; its connections stay open. Resume lets it go on.
func (p *Process) Pause() { p.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *Process) Resume() { p.Signal(syscall.SIGCONT) }

// Signal sends a signal to the process and to all that it has started.
func (p *Process) Signal(signal syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, signal) // the group may have gone already
}

// End ends the process by a signal. It does nothing when the process was not launched, or has ended by End.
func (p *Process) End(signal syscall.Signal, within time.Duration) error {
	if p.exited == nil {
		return nil
	}
	if signal != syscall.SIGKILL {
		p.Resume() // a paused process takes no other
	}
	p.Signal(signal)
	return p.AwaitEnd(within)
}

// AwaitEnd returns once the process has ended, with SIGKILL and an error if it has not gone in time.
func (p *Process) AwaitEnd(within time.Duration) (err error) {
	if p.exited == nil {
		return nil
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		err = fmt.Errorf("%s did not stop within %v", p.Command.Name, within)
	}
	p.Signal(syscall.SIGKILL) // what is left of the group
	<-p.exited
	p.exited = nil
	p.endSlower()
	return err
}
