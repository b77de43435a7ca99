//go:build unix

package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow refuses a link.
const noFollow = syscall.O_NOFOLLOW

// nobodyReads reports whether a FIFO could not be opened because it has no reader.
func nobodyReads(err error) bool { return errors.Is(err, syscall.ENXIO) }

// isOwn reports whether a file belongs to the user. For root all do.
func isOwn(info fs.FileInfo) bool {
	stat, known := info.Sys().(*syscall.Stat_t)
	return !known || os.Geteuid() == 0 || int(stat.Uid) == os.Geteuid()
}

// isOwnDescriptor reports whether a path without links is a descriptor of this process.
func isOwnDescriptor(path string) bool {
	self, err := filepath.EvalSymlinks("/proc/self")
	return strings.HasPrefix(path, "/dev/fd/") || err == nil && strings.HasPrefix(path, self+"/")
}

// duplicate opens a descriptor that the process was started with: to open its path would begin at the first byte of a
// file, and is not allowed for a socket. One that is closed on exec is of this process's own work, such as a connection
// to a server.
func duplicate(path, number string) (*os.File, error) {
	n, err := strconv.Atoi(number)
	flags, flagsErr := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
	if err != nil || flagsErr != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil, &fs.PathError{Op: "write", Path: path, Err: errNotOpen}
	}
	access, err := unix.FcntlInt(uintptr(n), unix.F_GETFL, 0)
	if err == nil && access&unix.O_ACCMODE == unix.O_RDONLY {
		err = errors.New("that descriptor is open for reading only")
	}
	if err == nil {
		n, err = unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return os.NewFile(uintptr(n), path), nil
}

// hold keeps a file open until the process ends: the reader of a pipe takes the end of its last writer for the end of
// the data.
func hold(file *os.File) { unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0) }

// mark marks a file as one that this process writes, until it is closed or the process ends, however it does.
func mark(file *os.File) { unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// isMarked reports whether a process writes a file.
func isMarked(file *os.File) bool {
	return errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
