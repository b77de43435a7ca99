package operation

import (
	"fmt"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Foreign values that only the change met are counted, all of them; one that the scan
// met, too, is told once.
func TestForeignKeysAreCountedOnce(t *testing.T) {
	foreign := func(i int) error {
		return &store.ForeignError{StoreKey: fmt.Sprintf("rl:{u}:%d", i), Holds: "a list"}
	}
	var scanned, changed Foreign
	scanned.add(foreign(0))
	for i := range 20 {
		changed.add(foreign(i))
	}
	scanned.merge(&changed)
	if scanned.Count() != 20 {
		t.Errorf("%d are counted, and there are 20", scanned.Count())
	}
}

// Keys that may deny for ever are named, however many others were met before them.
func TestUnsureKeysForEverComeFirst(t *testing.T) {
	var u Unsure
	for i := range 9 {
		u.add(&layouts.UnsureError{StoreKey: fmt.Sprint(i), NeverExpires: i == 1 || i == 8})
	}
	got := ""
	for _, key := range u.First {
		got += key.StoreKey
	}
	if u.Count != 9 || u.NeverExpire != 2 || got != "18023" {
		t.Errorf("%d keys, %d for ever, first %s, want 9, 2 and 18023", u.Count, u.NeverExpire, got)
	}
}
