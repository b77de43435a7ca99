//go:build linux || darwin

package terminaltest

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

func open() (screen, keyboard *os.File, err error) {
	keyboard, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	name, err := nameOf(keyboard)
	if err == nil {
		screen, err = os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		keyboard.Close()
		return nil, nil, err
	}
	return screen, keyboard, unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
}

func control(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
}

func resume(process *os.Process) error { return process.Signal(unix.SIGCONT) }
