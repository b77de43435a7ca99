package memory

import (
	"runtime/debug"
	"testing"
)

// percent returns what is set now.
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

// What the user has set stays, before and after.
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
