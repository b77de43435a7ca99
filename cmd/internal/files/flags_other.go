//go:build !unix

package files

import "io/fs"

// noFollow is 0: on this system it takes a special right to create links.
const noFollow = 0

// noWait is 0: on this system a file is no FIFO.
const noWait = 0

func nobodyReads(error) bool { return false }

func isOwn(fs.FileInfo) bool { return true }
