package redistest

import (
	"testing"
	"time"
)

// Patience is how long tests wait for what has to come, however busy the machine is.
const Patience = time.Minute

// Patiently calls try with a short time-out, and then with longer ones until nothing is missing: a try with a server
// that hangs lasts the whole time-out, and a healthy server on a busy machine needs more time. A try returns what is
// missing.
func Patiently(tb testing.TB, short time.Duration, try func(timeout time.Duration) (missing error)) {
	tb.Helper()
	for timeout := short; ; timeout *= 4 {
		missing := try(timeout)
		if missing == nil {
			return
		}
		if timeout*4 > Patience {
			tb.Fatalf("with a time-out of %s: %v", timeout, missing)
		}
	}
}

// LongPeriod returns a period of a year whose current window, which begins at a whole number of periods since 1970,
// lasts at least another day, so that it does not end during a test.
func LongPeriod() time.Duration {
	const day, longest = 24 * time.Hour, 366 * 24 * time.Hour
	if time.Duration(time.Now().UnixNano())%longest < longest-day {
		return longest
	}
	return longest - day
}
