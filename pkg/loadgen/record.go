package loadgen

import (
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/joint"
)

// newRecord begins a record of the answers of a run. It is nil if none is wanted or the instants of answers are
// unknown.
func newRecord(r *runner) *joint.Writer {
	if !r.Record || r.Intervals != nil {
		return nil
	}
	all := make([]joint.Keys, r.Population.limits)
	for limit := range all {
		k := &all[limit]
		for _, owner := range r.Population.owners[limit] {
			request := &r.Population.requests[owner]
			k.Names, k.Limits = append(k.Names, request.Key.Subject), append(k.Limits, request.Limit)
		}
		for key := range r.Population.mixed[limit] {
			k.Doubted = append(k.Doubted, key)
		}
	}
	return joint.NewWriter(all)
}

// recordAnswers records the answers before the instant safe, which are sorted.
func recordAnswers(w *joint.Writer, answers []answer, safe store.Instant) {
	if w == nil {
		return
	}
	kinds := [...]joint.Kind{charged: joint.Charged, spared: joint.Spared, refused: joint.Refused}
	for i := 0; i < len(answers) && answers[i].at < safe; i++ {
		a := &answers[i]
		e := joint.Entry{
			Kind: kinds[a.kind], Limit: a.limit, Doubted: a.doubted, Tells: a.tells, Key: a.key, Cost: a.cost, At: a.at,
		}
		if a.tells {
			e.Told = audit.Figures{
				Used: int64(a.used), Remaining: int64(a.remaining), RetryAfter: a.retry, ResetAfter: a.reset, Delay: a.delay,
			}
		}
		w.Add(&e)
	}
}

// recordUnknown records a request that may have been charged.
func recordUnknown(w *joint.Writer, u *unknownCharge) {
	if w != nil {
		w.Add(&joint.Entry{Kind: joint.Unknown, Limit: u.limit, Key: u.key, Cost: u.cost, At: u.gaveUp})
	}
}
