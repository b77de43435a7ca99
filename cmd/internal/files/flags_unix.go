//go:build unix

package files

import (
	"io/fs"
	"os"
	"syscall"
)

// noFollow opens no link.
const noFollow = syscall.O_NOFOLLOW

// isOwn reports whether a file is the user's. For root all are.
func isOwn(info fs.FileInfo) bool {
	stat, known := info.Sys().(*syscall.Stat_t)
	return !known || os.Geteuid() == 0 || int(stat.Uid) == os.Geteuid()
}
