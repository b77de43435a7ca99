//go:build !linux

package filestore

import "time"

// lineSuffix follows the name of the limits in the name of the file at which processes wait in line.
const lineSuffix = "-lock"

// line is where processes that write wait in line. On this system they do not, and meet at SQLite's lock.
type line struct{}

func openLine(string) (*line, error) { return nil, nil }

func (*line) wait()                     {}
func (*line) isOver(time.Duration) bool { return false }
func (*line) leave()                    {}
func (*line) close() error              { return nil }
