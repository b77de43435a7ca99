// Package filekind distinguishes regular files from everything else that has a path.
package filekind

import "io/fs"

// Error says that something is not a regular file. Reading it could wait for ever, never end, or affect a device.
type Error struct{ Mode fs.FileMode }

func (e *Error) Error() string { return "it is " + Name(e.Mode) + ", not a file" }

// Check returns an [*Error] unless mode is that of a regular file.
func Check(mode fs.FileMode) error {
	if mode.IsRegular() {
		return nil
	}
	return &Error{mode}
}

// Name returns the kind of file in words.
func Name(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a regular file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO (named pipe)"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "something else"
}
