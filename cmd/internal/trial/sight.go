package trial

import (
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// describeSights says how far the audits of limits could see that somebody else decides. The
// whole run's is that of the limit of which least could be seen.
func describeSights(run *report.Run, sights []interval.Sight) {
	for i := range sights {
		s := &sights[i]
		seen := &report.Sight{LeastOver: s.LeastOver, LeastUnder: s.LeastUnder}
		if s.ChargesDenied {
			seen.UnderIfFree = s.UnderIfFree
			run.Warnings = append(run.Warnings, fmt.Sprintf("there was room for %s that %s denied, unless denied requests are charged as well, "+
				"as many limiters do; they are not counted as under-admitted", output.Plural(int(s.UnderIfFree), "unit"), run.Limits[i].Name))
		}
		if s.PhaseKnown {
			phase, within := milliseconds(s.Phase), milliseconds(s.PhaseWithin)
			seen.PhaseMS, seen.PhaseWithinMS = &phase, &within
		}
		run.Limits[i].Audit.Sight = seen
		if worst := run.Audit.Sight; worst == nil || seen.LeastOver > worst.LeastOver || worst.LeastOver > 0 && seen.LeastOver == 0 {
			run.Audit.Sight = seen
		}
	}
}
