package redistest

import (
	"testing"
	"time"
)

// Patience is how long tests wait for what has to come, however busy the machine is.
const Patience = time.Minute

// Patiently calls try with a short time-out, and with longer ones until nothing was missing: a
// server that hangs is waited for in full, and a sound one of a busy machine needs its time. A try
// returns what had to come and did not.
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

// LongPeriod returns a period of a year. Its window, which begins at a whole number of periods
// since 1970, does not end while a test runs: it lasts another day at least.
func LongPeriod() time.Duration {
	const day, longest = 24 * time.Hour, 366 * 24 * time.Hour
	if time.Duration(time.Now().UnixNano())%longest < longest-day {
		return longest
	}
	return longest - day
}
