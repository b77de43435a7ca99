//go:build !unix

package cmd

import (
	"errors"
	"os/exec"
)

// become is Env.Become where no process can be replaced. Ctrl-C reaches the program, too.
func become(program *exec.Cmd) (code int, err error) {
	err = program.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.ExitCode(), nil
	}
	return 0, err
}
