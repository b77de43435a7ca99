package policy

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Whatever the unknown attributes are, the limit that applies is a candidate. It is the only one if all are known.
func TestTheLimitThatCountsIsACandidate(t *testing.T) {
	attributes := rapid.MapOfN(rapid.SampledFrom([]string{"tenant", "plan", "region"}),
		rapid.SampledFrom([]string{"a", "b"}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Limit: limiter.Per("", 1, time.Minute)}
		for i, when := range rapid.SliceOfN(attributes, 0, 4).Draw(t, "overrides") {
			l.Exceptions = append(l.Exceptions, Exception{When: when, Limit: limiter.Per("", int64(i)+2, time.Minute)})
		}
		all := Attributes(attributes.Draw(t, "attributes"))
		for _, name := range []string{"tenant", "plan", "region"} {
			if all[name] == "" {
				all[name] = "c"
			}
		}
		known := Attributes{}
		for name, value := range all {
			if rapid.Bool().Draw(t, "known") {
				known[name] = value
			}
		}
		limit, override := l.For(all)
		candidates := l.Candidates(known)
		if !slices.ContainsFunc(candidates, func(c Candidate) bool {
			return c.Limit == limit &&
				c.Exception == override
		}) {
			t.Errorf("%v counts for %v, and is not among %v of %v", limit, all, candidates, known)
		}
		if len(known) == len(all) && (len(candidates) != 1 || len(candidates[0].Unknown) != 0) {
			t.Errorf("all is known, and there are %v", candidates)
		}
	})
}
