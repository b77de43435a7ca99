package loadgen

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Merging the records of several workers sorts them and loses none.
func TestMergeRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var answers, room []answer
		for worker := range rapid.IntRange(0, 9).Draw(t, "workers") {
			at := store.Instant(0)
			for i := range rapid.IntRange(0, 20).Draw(t, "answers") {
				at += store.Instant(rapid.IntRange(-1, 5).Draw(t, "step"))
				answers = append(answers, answer{at: at, key: uint32(worker), cost: uint32(i),
					kind: answerKind(rapid.IntRange(0, 2).Draw(t, "kind"))})
			}
		}
		want := slices.Clone(answers)
		slices.SortStableFunc(want, func(a, b answer) int { return compareAnswers(&a, &b) })
		room = slices.Repeat([]answer{{at: 99}}, rapid.IntRange(0, 30).Draw(t, "room"))
		if got, _ := mergeRuns(answers, room); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

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
