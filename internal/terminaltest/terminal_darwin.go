package terminaltest

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nameOf returns the path of the program's side, and makes it accessible.
func nameOf(keyboard *os.File) (string, error) {
	var name [128]byte
	for _, request := range []uintptr{unix.TIOCPTYGRANT, unix.TIOCPTYUNLK, unix.TIOCPTYGNAME} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), request,
			uintptr(unsafe.Pointer(&name))); errno != 0 {
			return "", errno
		}
	}
	return unix.ByteSliceToString(name[:]), nil
}
