//go:build unix

package files

import (
	"io/fs"
	"os"
	"syscall"
)

// noFollow refuses a link.
const noFollow = syscall.O_NOFOLLOW

// isOwn reports whether a file belongs to the user. For root all do.
func isOwn(info fs.FileInfo) bool {
	stat, known := info.Sys().(*syscall.Stat_t)
	return !known || os.Geteuid() == 0 || int(stat.Uid) == os.Geteuid()
}
