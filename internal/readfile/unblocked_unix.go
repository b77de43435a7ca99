//go:build unix

package readfile

import (
	"io/fs"
	"os"
	"syscall"
)

// Unblocked is the flag to open a FIFO without waiting for its other end, and a terminal without making it the
// controlling one.
const Unblocked = syscall.O_NONBLOCK | syscall.O_NOCTTY

// keepOwner gives a file the owner of the one that it replaces. Only root may for all.
func keepOwner(file *os.File, before fs.FileInfo) {
	if stat, known := before.Sys().(*syscall.Stat_t); known {
		_ = file.Chown(int(stat.Uid), int(stat.Gid))
	}
}
