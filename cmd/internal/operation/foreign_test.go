package operation

import (
	"fmt"
	"testing"

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
