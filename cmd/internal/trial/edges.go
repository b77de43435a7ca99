package trial

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// mostEdges is how many edges of windows a report marks; more could not be told apart.
const mostEdges = 60

// edges returns when, in ms from the beginning of a run, one window of a limit ends and the
// next one begins: of the first limit that counts in windows, and in the scenario that is
// about edges of the first limit. begin is by the clock that decides. There are none where
// they could not be told apart.
func edges(limits []namedLimit, scenario *loadgen.Scenario, begin time.Time, length time.Duration) []int64 {
	var period time.Duration
	for _, l := range limits {
		counts := l.limit.Algorithm == store.FixedWindow || l.limit.Algorithm == store.SlidingCounter
		if counts && !l.limit.FromFirst || scenario != nil && scenario.Name == boundaryScenario {
			period = l.limit.Period
			break
		}
	}
	if period <= 0 || length/period > mostEdges {
		return nil
	}
	var all []int64
	first := period - time.Duration(begin.UnixNano()%int64(period))
	for at := first; at < length; at += period {
		all = append(all, at.Milliseconds())
	}
	return all
}

// boundaryScenario is the name of the scenario about the edges of windows.
const boundaryScenario = "boundary"
