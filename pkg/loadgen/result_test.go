package loadgen

import (
	"testing"
	"time"
)

// If the generator is late by a good part of the store's time, and not only for a few requests, the latency is
// worthless.
func TestGeneratorLimited(t *testing.T) {
	const millisecond, second = time.Millisecond, time.Second
	for _, test := range []struct {
		name     string
		requests int
		late     int           // of them
		by       time.Duration // the lag of the generator
		service  time.Duration
		limited  bool
	}{
		{"in time", 10_000, 0, 0, millisecond, false},
		{"a few late of many", 10_000, 50, second, millisecond, false},
		{"two in a hundred late", 10_000, 200, 20 * millisecond, millisecond, true},
		{"late by next to nothing", 10_000, 10_000, 900 * time.Microsecond, 0, false},
		{"late by little of what the store takes", 10_000, 10_000, 20 * millisecond, second, false},
		{"one late of forty", 40, 1, second, millisecond, false},
		{"half late of forty", 40, 21, second, millisecond, true},
		{"one of one", 1, 1, second, millisecond, true},
		{"none", 0, 0, 0, 0, false},
	} {
		lags, services := newHistogram(), newHistogram()
		for i := range test.requests {
			lag := 20 * time.Microsecond
			if i < test.late {
				lag = test.by
			}
			record(lags, lag)
			record(services, test.service)
		}
		if got := isGeneratorLimited(lags, services, newHistogram()); got != test.limited {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}
