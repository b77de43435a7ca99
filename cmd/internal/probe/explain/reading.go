package explain

import (
	"slices"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A request was decided at some instant between sending and answer, and one that failed may have been charged. Each
// reading assumes one possibility; a model is contradicted only where all readings contradict it.
type reading struct {
	place  int64  // the quarter between sending and answer, of four
	failed uint64 // bits: which of the failed requests were charged, the first one lowest
}

// readings are in the order of their likelihood.
var readings = [...]reading{{2, 0}, {0, 0}, {4, ^uint64(0)}, {2, ^uint64(0)}, {2, 1}, {2, 2}, {2, 5}, {2, 6}, {2, 3}, {2, 4}}

// plainReadings is the number of readings if nothing failed.
const plainReadings = 3

func (r *reading) instant(o *observation) store.Instant {
	return o.sent + (o.answered-o.sent)*store.Instant(r.place)/4
}

// supposed is a reading of one subject's observations, as far as it was needed.
type supposed struct {
	usage
	taken    int // observations
	failures int // among them
}

// Contradictions counts the observations that no reading explains, up to most. It follows a reading only as far as
// the ones before it leave something unexplained.
func (h history) Contradictions(m *Model, most int) (count int) {
	var all [len(readings)]supposed
	for _, one := range h {
		plausible := readings[:]
		if !slices.ContainsFunc(one, func(o observation) bool { return o.outcome == endpoint.Failed }) {
			plausible = readings[:plainReadings]
		}
		begun := 0
		for i := range one {
			explained := one[i].outcome == endpoint.Failed
			for j := 0; j < len(plausible) && !explained; j++ {
				if j == begun {
					all[j] = supposed{}
					begun++
				}
				all[j].follow(m, one[:i], &plausible[j])
				explained = m.explains(&all[j].usage, &one[i])
			}
			if explained {
				continue
			}
			if count++; count >= most {
				return count
			}
		}
	}
	return count
}

// follow charges a model with what was observed. It has already taken the first observations.
func (s *supposed) follow(m *Model, observed []observation, r *reading) {
	for ; s.taken < len(observed); s.taken++ {
		o := &observed[s.taken]
		now := max(r.instant(o), s.last)
		switch o.outcome {
		case endpoint.Allowed:
			now = m.admits(&s.usage, o, now)
			m.take(&s.usage, o.cost*o.n, o.cost*o.n, now)
		case endpoint.Denied:
			m.take(&s.usage, o.cost*o.n, 0, now)
		case endpoint.Failed:
			if r.failed>>min(s.failures, 63)&1 == 1 {
				m.take(&s.usage, o.cost, o.cost, now)
			}
			s.failures++
		}
	}
}
