//go:build !linux

package filestore

import "time"

// lineSuffix is what the name of the file that processes stand in line at has after that of
// the limits.
const lineSuffix = "-lock"

// line is where processes that write stand in line. Here they do not, and meet at SQLite's lock.
type line struct{}

func openLine(string) (*line, error) { return nil, nil }

func (*line) wait()                     {}
func (*line) isOver(time.Duration) bool { return false }
func (*line) leave()                    {}
func (*line) close() error              { return nil }
