// Package noterminalquery prevents a library from querying the terminal for its colours before main begins. Bubble
// Tea does so during initialization, in every command of a program that imports it. If no answer comes, it waits 5
// s and swallows the user's input.
//
// It does not query if the environment variable CI is set. So this package sets CI, and [Restore] undoes that. By
// the language's specification packages are initialized in the order of their import paths, as far as their imports
// allow. This one imports only the standard library and so comes before termenv, which sends the query.
package noterminalquery

import "os"

const variable = "CI"

// original is the variable before the program began. It is saved during initialization.
var original = set()

// value is the value of an environment variable.
type value struct {
	text string
	set  bool
}

// set sets the variable if it is empty, and returns its old value.
func set() (v value) {
	if v.text, v.set = os.LookupEnv(variable); v.text == "" {
		os.Setenv(variable, "noterminalquery")
	}
	return v
}

// Restore restores the original value. Main calls it first.
func Restore() {
	if original.set {
		os.Setenv(variable, original.text)
	} else {
		os.Unsetenv(variable)
	}
}
