//go:build !unix

package files

import "io/fs"

// There are no FIFOs among such a system's files, and no links without rights of their own.
const unblocked, noFollow = 0, 0

func isOwn(fs.FileInfo) bool { return true }
