package goroutines_test

import (
	"testing"

	"github.com/limitctl/limitctl/internal/goroutines"
)

func TestAPanicOfOneReachesTheCallerThatWaits(t *testing.T) {
	var group goroutines.Group
	done := make([]bool, 3)
	for i := range done {
		group.Go(func() {
			done[i] = true
			if i == 1 {
				panic("y")
			}
		})
	}
	if err := group.Wait(); err == nil || err.Error() != "internal error: y" {
		t.Errorf("error %v", err)
	}
	if !done[0] || !done[1] || !done[2] {
		t.Errorf("not all were called: %v", done)
	}
}
