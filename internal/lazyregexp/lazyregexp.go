// Package lazyregexp has regular expressions that are compiled when they are first used. A
// command that uses none of them starts without compiling any.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns what gives the regular expression, and compiles it once. It panics at the first
// use if text is not a regular expression.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
