// Package lazyregexp compiles regular expressions on their first use, so that a command starts without compiling
// any that it does not need.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the regular expression, and compiles it once. It panics on the first use if
// text is no regular expression.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
