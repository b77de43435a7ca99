package cmd

import (
	"path/filepath"
)

// contextFile is where "context use" remembers its choice; empty if nothing says
// where that could be.
func contextFile(getenv func(string) string) string {
	directory := stateDir(getenv)
	if directory == "" {
		return ""
	}
	return filepath.Join(directory, "context")
}

// defaultFile returns the path of the file that is the store when none is said.
func defaultFile(getenv func(string) string) (string, error) {
	directory := stateDir(getenv)
	if directory == "" {
		return "", usagef("no --store given, and neither XDG_STATE_HOME nor HOME is set to find a file; give --store file:PATH")
	}
	return filepath.Join(directory, "limits.db"), nil
}

// stateDir is where limitctl keeps what is not configuration; empty if
// nothing says where that could be.
func stateDir(getenv func(string) string) string {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // a relative one is to be ignored, by the XDG specification
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "limitctl")
}
