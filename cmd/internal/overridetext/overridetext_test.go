package overridetext

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestEffect(t *testing.T) {
	for want, o := range map[string]store.Override{
		"token-bucket:600/1m": {Effect: store.OverrideLimit,
			Limit: store.Limit{Algorithm: store.TokenBucket, Count: 600, Period: time.Minute}},
		"×3":     {Effect: store.OverrideTimes, Thousandths: 3000},
		"×0.001": {Effect: store.OverrideTimes, Thousandths: 1},
		"+5000":  {Effect: store.OverrideAdd, Units: 5000},
		"-1":     {Effect: store.OverrideAdd, Units: -1},
		"block":  {Effect: store.OverrideBlock},
		"exempt": {Effect: store.OverrideExempt},
	} {
		if got := Effect(&o); got != want {
			t.Errorf("%+v is %q, want %q", o, got, want)
		}
	}
}
