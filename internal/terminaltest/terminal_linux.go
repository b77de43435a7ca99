package terminaltest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// nameOf returns the path of the program's side, and makes it accessible.
func nameOf(keyboard *os.File) (string, error) {
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return "", err
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	return fmt.Sprintf("/dev/pts/%d", number), err
}
