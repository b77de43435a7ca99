//go:build !unix

package files

import (
	"io/fs"
	"os"
)

// noFollow is 0: on this system it takes a special right to create links.
const noFollow = 0

func nobodyReads(error) bool { return false }

func isOwn(fs.FileInfo) bool { return true }

func isOwnDescriptor(string) bool { return false }

func duplicate(string, string) (*os.File, error) { return nil, errNotOpen }

func hold(*os.File) {}

// On this system nothing says whether a process still writes a file.
func mark(*os.File) {}

func isMarked(*os.File) bool { return false }
