package report

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// Sight is how far the audit of a limit could see that somebody else decides, when all that is
// known of a decision is that it was made between request and answer.
type Sight struct {
	// LeastOver is the least number of units, admitted to one key beyond its limit, that would have
	// been found at some time, and LeastUnder that of units less than the limit. 0 is none: nothing
	// was admitted, or nothing was denied for a reason.
	LeastOver  int64 `json:"least_over_admitted"`
	LeastUnder int64 `json:"least_under_admitted"`
	// UnderIfFree is the units that were denied wrongly unless denied requests are charged, too,
	// which is not known.
	UnderIfFree int64 `json:"under_admitted_if_denied_are_free,omitempty"`
	// PhaseMS is when aligned windows begin, after whole periods since the epoch, give or take
	// PhaseWithinMS; nil if they are not aligned or it was not found.
	PhaseMS       *float64 `json:"phase_ms,omitempty"`
	PhaseWithinMS *float64 `json:"phase_within_ms,omitempty"`
}

// words says what would have been found, to be put after the figures of the audit.
func (s *Sight) words() string {
	if s == nil {
		return ""
	}
	over, under := "nothing was admitted", "under-admission was not tested"
	if s.LeastOver > 0 {
		over = fmt.Sprintf("an excess of %s would have shown", units(s.LeastOver))
	}
	if s.LeastUnder > 0 {
		under = fmt.Sprintf("a lack of %s would have shown", units(s.LeastUnder))
	}
	text := "; " + over + ", " + under
	if s.PhaseMS != nil && s.PhaseWithinMS != nil {
		text += fmt.Sprintf("; windows begin %s after whole periods (± %s)",
			output.Duration(fromMS(*s.PhaseMS)), output.Duration(fromMS(*s.PhaseWithinMS)))
	}
	return text
}

// fromMS returns milliseconds as a duration.
func fromMS(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
