package loadgen

import (
	"math"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The answers of one instant come in the order of what was in use, also those of leases, whose figures nobody judges. A denial
// without figures comes last.
func TestAnswersOfAnInstantAreOrderedByUsage(t *testing.T) {
	for _, test := range []struct {
		kind  answerKind
		tells bool
		used  uint32
	}{{charged, true, 7}, {charged, false, 7}, {refused, true, 7}, {refused, false, math.MaxUint32}, {spared, false, math.MaxUint32}} {
		one := answer{kind: test.kind}
		if one.tell(&store.Decision{Used: 7}, test.tells); one.used != test.used || one.tells != test.tells {
			t.Errorf("%+v: used %d, tells %t", test, one.used, one.tells)
		}
	}
}
