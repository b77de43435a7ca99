// Package unasked keeps the terminal from being asked for its colours before main
// begins. Bubble Tea does that as it is initialized, in every command of a program
// that has it, and where no answer comes it waits 5 s and swallows what is typed.
//
// It does not ask where CI is set. Packages are initialized in the order of their
// import paths, by the language's specification, as far as their imports allow; this
// one imports nothing but the standard library and so comes before termenv, which is
// what asks.
package unasked

import "os"

const variable = "CI"

// before is the variable as it was, which has to be kept while packages are
// initialized.
var before = hide()

type value struct {
	text string
	set  bool
}

// hide sets the variable, and returns what it was.
func hide() (v value) {
	if v.text, v.set = os.LookupEnv(variable); v.text == "" {
		os.Setenv(variable, "unasked")
	}
	return v
}

// Restore brings the environment back to what it was, for main to begin with.
func Restore() {
	if before.set {
		os.Setenv(variable, before.text)
	} else {
		os.Unsetenv(variable)
	}
}
