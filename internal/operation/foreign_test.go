package operation

import (
	"fmt"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

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
	if u.Count != 9 || u.NoTTL != 2 || got != "18023" {
		t.Errorf("%d keys, %d for ever, first %s, want 9, 2 and 18023", u.Count, u.NoTTL, got)
	}
}
