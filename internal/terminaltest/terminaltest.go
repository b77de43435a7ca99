// Package terminaltest opens terminals for tests, on the systems that people develop on.
package terminaltest

import (
	"os"
	"os/exec"
)

// Open opens a terminal of 80 columns and 24 lines: the side of the program, and that of who sits
// before it.
func Open() (screen, keyboard *os.File, err error) { return open() }

// Control has a command that is not started yet be the one that a terminal, its standard input,
// sends its signals to.
func Control(command *exec.Cmd) { control(command) }

// Resume lets a process go on that a terminal has stopped.
func Resume(process *os.Process) error { return resume(process) }
