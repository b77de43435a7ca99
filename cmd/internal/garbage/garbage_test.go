package garbage

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestTheSettingFromBeforeIsRestored(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(math.MaxInt64), debug.SetGCPercent(standardPercent)
	t.Cleanup(func() { debug.SetMemoryLimit(limit); debug.SetGCPercent(percent) })
	restoreLimit, restorePercent := KeepBelow(1<<30), KeepSmall()
	if got := debug.SetMemoryLimit(-1); got != 1<<30 {
		t.Errorf("the limit is %d", got)
	}
	if got := debug.SetGCPercent(thriftyPercent); got != thriftyPercent {
		t.Errorf("the percentage is %d", got)
	}
	restoreLimit()
	restorePercent()
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("afterwards the limit is %d", got)
	}
	if got := debug.SetGCPercent(standardPercent); got != standardPercent {
		t.Errorf("afterwards the percentage is %d", got)
	}
}

func TestTheUsersSettingStays(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(2<<30), debug.SetGCPercent(50)
	t.Cleanup(func() { debug.SetMemoryLimit(limit); debug.SetGCPercent(percent) })
	restoreLimit, restorePercent := KeepBelow(1<<30), KeepSmall()
	for range 2 { // before they are restored, and after
		if got := debug.SetMemoryLimit(-1); got != 2<<30 {
			t.Errorf("the limit is %d", got)
		}
		if got := debug.SetGCPercent(50); got != 50 {
			t.Errorf("the percentage is %d", got)
		}
		restoreLimit()
		restorePercent()
	}
}
