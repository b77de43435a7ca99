package envoy

import (
	"strings"
	"sync"
)

// longestSeldom is how many names Seldom knows.
const longestSeldom = 100

// longestName is how many bytes of a name count.
const longestName = 200

// Seldom returns a function that calls tell with each name once, and with no more than 100 names,
// whatever clients send; a name counts by its first 200 bytes. It is safe for concurrent use.
func Seldom(tell func(name string)) func(name string) {
	var mu sync.Mutex
	told := map[string]bool{}
	return func(name string) {
		name = strings.Clone(name[:min(len(name), longestName)]) // and nothing of its request is kept
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
