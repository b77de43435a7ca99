// Package tier separates the quick tests from the others.
//
// `make test` runs the quick tier, which is what `go test -short` runs. It needs Go and
// redis-server only, and takes a few minutes on a small machine. `make ci` runs every test.
package tier

import "testing"

// Full leaves a test out of the quick tier. The reason says what the test needs beyond Go and redis-server, or why
// it takes long. It is a literal, because `make test` reads the reasons from the sources and lists them at its end.
func Full(tb testing.TB, reason string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("make ci runs it: " + reason)
	}
}

// Allocations returns how many allocations a run of f makes on average, as [testing.AllocsPerRun] does. It is the least
// of five counts, since each has what the runtime allocates meanwhile.
func Allocations(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for range 4 {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}

// Must ends a test on an error.
func Must(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
