//go:build unix

package files

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// noFollow refuses a link.
const noFollow = syscall.O_NOFOLLOW

// noWait opens a FIFO without a wait for its reader: without one it is the error ENXIO.
const noWait = syscall.O_NONBLOCK

// nobodyReads reports whether a FIFO could not be opened because it has no reader.
func nobodyReads(err error) bool { return errors.Is(err, syscall.ENXIO) }

// isOwn reports whether a file belongs to the user. For root all do.
func isOwn(info fs.FileInfo) bool {
	stat, known := info.Sys().(*syscall.Stat_t)
	return !known || os.Geteuid() == 0 || int(stat.Uid) == os.Geteuid()
}
