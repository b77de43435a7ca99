package cmd

import "path/filepath"

// stateDir returns the directory that is limitctl's own, for what it keeps between
// runs.
func stateDir(getenv func(string) string) (string, error) {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // a relative one is to be ignored, by the XDG specification
		home := getenv("HOME")
		if home == "" {
			return "", usagef("neither XDG_STATE_HOME nor HOME says where limitctl can keep its files; set one of them")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "limitctl"), nil
}
