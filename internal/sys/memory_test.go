package sys

import (
	"math"
	"runtime/debug"
	"testing"
)

// percent returns the current setting.
func percent() int {
	now := debug.SetGCPercent(usual)
	debug.SetGCPercent(now)
	return now
}

// The setting changes, and back; that of the user stays, before and after.
func TestGarbageCollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	for name, test := range map[string]struct {
		change         func() (asUsual func())
		before, during int
	}{
		"often": {CollectOften, usual, little}, "small": {BeSmall, usual, less}, "often, of a user": {
			CollectOften, 300, 300},
	} {
		debug.SetGCPercent(test.before)
		asUsual := test.change()
		if got := percent(); got != test.during {
			t.Errorf("%s: %d %% meanwhile, want %d %%", name, got, test.during)
		}
		if asUsual(); percent() != test.before {
			t.Errorf("%s: %d %% afterwards, want %d %%", name, percent(), test.before)
		}
	}
}

// An existing limit stays, whether the user or an earlier call set it.
func TestLimitLeavesTheUsersSetting(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	for _, test := range []struct{ before, want int64 }{{math.MaxInt64, 1 << 30}, {5 << 30, 5 << 30}} {
		debug.SetMemoryLimit(test.before)
		LimitMemory(1 << 30)
		if got := debug.SetMemoryLimit(-1); got != test.want {
			t.Errorf("with %d before it is %d, want %d", test.before, got, test.want)
		}
	}
}
