// Package terminaltest opens terminals for tests, on the systems that people develop on.
package terminaltest

import (
	"os"
	"os/exec"
)

// Open opens a terminal of 80 columns and 24 lines: the program's side, and the user's side.
func Open() (screen, keyboard *os.File, err error) { return open() }

// Control makes a command, which is not yet started, the receiver of the signals of the terminal that is its
// standard input.
func Control(command *exec.Cmd) { control(command) }

// Resume continues a process that a terminal has stopped.
func Resume(process *os.Process) error { return resume(process) }
