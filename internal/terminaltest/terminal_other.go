//go:build !linux && !darwin

package terminaltest

import (
	"errors"
	"os"
	"os/exec"
)

func open() (screen, keyboard *os.File, err error) { return nil, nil, errors.ErrUnsupported }

func control(*exec.Cmd) {}

func resume(*os.Process) error { return errors.ErrUnsupported }
