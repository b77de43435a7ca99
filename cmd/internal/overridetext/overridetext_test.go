package overridetext

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

func TestEffect(t *testing.T) {
	for want, o := range map[string]limiter.Override{
		"token-bucket:600/1m": {Effect: limiter.OverrideLimit,
			Limit: limiter.Limit{Algorithm: limiter.TokenBucket, Count: 600, Period: time.Minute}},
		"×3":     {Effect: limiter.OverrideTimes, Thousandths: 3000},
		"×0.001": {Effect: limiter.OverrideTimes, Thousandths: 1},
		"+5000":  {Effect: limiter.OverrideAdd, Units: 5000},
		"-1":     {Effect: limiter.OverrideAdd, Units: -1},
		"block":  {Effect: limiter.OverrideBlock},
		"exempt": {Effect: limiter.OverrideExempt},
	} {
		if got := Effect(&o); got != want {
			t.Errorf("%+v is %q, want %q", o, got, want)
		}
	}
}
