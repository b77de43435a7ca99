package envoy

import (
	"strings"
	"sync"
)

// longestSeldom is the most names that Seldom keeps.
const longestSeldom = 100

// longestName is the most bytes of a name that it compares.
const longestName = 200

// Seldom returns a function that calls tell once for each name, and for at most 100 names, whatever clients send.
// It compares the first 200 bytes of a name. It is safe for concurrent use.
func Seldom(tell func(name string)) func(name string) {
	var mu sync.Mutex
	told := map[string]bool{}
	return func(name string) {
		name = strings.Clone(name[:min(len(name), longestName)]) // a copy does not keep the request in memory
		mu.Lock()
		first := !told[name] && len(told) < longestSeldom
		if first {
			told[name] = true
		}
		mu.Unlock()
		if first {
			tell(name)
		}
	}
}
