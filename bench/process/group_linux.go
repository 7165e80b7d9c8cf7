package process

import "syscall"

// ownGroup puts a child into a process group of its own, which the kernel ends with this process.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
