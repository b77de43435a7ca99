//go:build unix

package cmd

import (
	"os/exec"
	"syscall"
)

// become is Env.Become: the program gets this process, so that signals, the terminal and the exit code are its own.
func become(program *exec.Cmd) (code int, err error) {
	return 0, syscall.Exec(program.Path, program.Args, program.Environ())
}
