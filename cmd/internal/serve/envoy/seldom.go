package envoy

import "sync"

// longestSeldom is how many names Seldom knows.
const longestSeldom = 100

// Seldom returns a function that calls tell with each name once, and with no more than 100 names,
// whatever clients send. It is safe for concurrent use.
func Seldom(tell func(name string)) func(name string) {
	var mu sync.Mutex
	told := map[string]bool{}
	return func(name string) {
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
