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

func TestCollectOften(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	asUsual := CollectOften()
	if got := percent(); got != little {
		t.Errorf("%d %% while a lot is in use, want %d %%", got, little)
	}
	if asUsual(); percent() != usual {
		t.Errorf("%d %% afterwards, want %d %%", percent(), usual)
	}
}

func TestBeSmall(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	asUsual := BeSmall()
	if got := percent(); got != less {
		t.Errorf("%d %% in a small process, want %d %%", got, less)
	}
	if asUsual(); percent() != usual {
		t.Errorf("%d %% afterwards, want %d %%", percent(), usual)
	}
}

// The user's setting stays, before and after.
func TestCollectOftenLeavesTheUsersSetting(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(300))
	asUsual := CollectOften()
	if got := percent(); got != 300 {
		t.Errorf("%d %% in place of the user's 300 %%", got)
	}
	if asUsual(); percent() != 300 {
		t.Errorf("%d %% afterwards in place of the user's 300 %%", percent())
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
