package operation

import (
	"errors"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// What is to remain of a limit that is not known cannot be set. Deleting its key can.
func TestNothingIsLeftRemainingOfAnUnknownLimit(t *testing.T) {
	for _, e := range storetest.NotAllKnown() {
		wanted := &targets{remaining: &Remaining{Units: 3}, dryRun: true}
		err := wanted.add(&e, nil)
		if known := e.Key.Subject == "whole"; known != (err == nil) || known == wanted.failed {
			t.Errorf("%s: %v, failed %v", e.Key.Subject, err, wanted.failed)
		}
		if err != nil && !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("%s: %v; want an ErrInvalid", e.Key.Subject, err)
		}
		reset := &targets{dryRun: true}
		if err := reset.add(&e, nil); err != nil || reset.count != 1 {
			t.Errorf("a reset of %s: %v", e.Key.Subject, err)
		}
	}
}
