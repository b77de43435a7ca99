package report

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// Limits are those of a run.
type Limits []Limit

// StoreClock is the clock that decided, held against the one of the machine that asked. Each
// decision was made between the sending of its request and the answer.
type StoreClock struct {
	// Held is the calls with an instant, and Unreported those without one.
	Held       int64 `json:"held"`
	Unreported int64 `json:"untold,omitempty"`
	// AheadMS is how far the store's clock was ahead in the end.
	AheadMS float64 `json:"ahead_ms" range:"signed"`
	// Drift is how much faster the store's clock ran, as a share of the time: 0.02 for 2 %,
	// negative for a slow one. It is 0 if a steady clock explains all instants.
	Drift float64 `json:"drift" range:"signed"`
	// Jumps is how often the clock changed at once, and stayed so. Astray is the instants that
	// were wrong by themselves. FarthestMS is the most that an instant was away from where it
	// should have been, negative if it was too early.
	Jumps      int64   `json:"jumps,omitempty"`
	Astray     int64   `json:"astray,omitempty"`
	FarthestMS float64 `json:"farthest_ms,omitempty" range:"signed"`
	// CoarseMS is how long the clock stood still between two of its steps, if that was found.
	CoarseMS float64 `json:"coarse_ms,omitempty"`
}

// Audit is how right the decisions were. Where a run has several limits it is the
// worst of their ratios and the sum of their units.
type Audit struct {
	audit.Totals
	// LimitReached is the most that any key had in use or asked for, with what it left to others, against the capacity;
	// below 1 the limit was never reached, and over-admission was not tested. Of several
	// limits it is that of the one reached least. It is nil where it is not known.
	LimitReached *float64 `json:"limit_reached,omitempty"`
	// Lies is the figures in answers compared with the truth; nil
	// if none of them could be.
	Lies *Lies `json:"lies,omitempty"`
	// KeysOver and KeysUnder are the keys with any of them; 0 if that is not known.
	KeysOver  int64 `json:"keys_over_admitted,omitempty"`
	KeysUnder int64 `json:"keys_under_admitted,omitempty"`
	// Doubtful: something else than the limiter can explain what looks wrong, as a warning
	// says, so that the audit does not fail the run.
	Doubtful bool `json:"doubtful,omitempty"`
	// UnderExplained: the way that the limits are decided explains what was under-admitted,
	// as a warning says, so that it does not fail the run.
	UnderExplained bool `json:"under_admitted_explained,omitempty"`
	// LongestDenialRun is the most requests of one key denied one after the other.
	LongestDenialRun int64 `json:"longest_denial_run"`
	// Fairness is Jain's index of the units that each key was admitted: 1 if all
	// had the same, 1/keys if one had all.
	Fairness float64 `json:"fairness"`
	// Admitted is the units that all keys were admitted.
	Admitted float64 `json:"admitted_units,omitempty"`
	// Sensitivity is what the audit would have noticed, of a limit that somebody else decides.
	Sensitivity *Sensitivity `json:"sight,omitempty"`
}

// Lies is how true the figures in answers were.
type Lies struct {
	// Checked is the answers whose figures were held against the truth, and Wrong those of
	// them with a wrong figure.
	Checked int64 `json:"checked"`
	Wrong   int64 `json:"wrong"`
	Fields  []Lie `json:"fields,omitempty"` // those in which any were wrong
}

// Lie is what answers reported wrong in one field.
type Lie struct {
	// Field is remaining, used, retry_after, reset_after or delay.
	Field   string `json:"field"`
	Answers int64  `json:"answers"` // that reported it wrong
	// The rest is about the first of them. Reported is what it said and True what it should have
	// said, as units or a duration; after requests of an unknown outcome True may be a range.
	Key      string    `json:"key,omitempty"`
	At       time.Time `json:"at"`
	Reported string    `json:"told"`
	True     string    `json:"true"`
}

// Limit is one of the limits of a run, and its own audit.
type Limit struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Limit     string `json:"limit"`
	Shadow    bool   `json:"shadow,omitempty"`
	// Denied is the requests that this limit denied, or would have as a shadow.
	Denied int64 `json:"denied"`
	Audit
}

// Sensitivity is what the audit of a limit would have noticed that somebody else decides, when all that is
// known of a decision is that it was made between request and answer.
type Sensitivity struct {
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

// Wrapped is what wrappers around the store of a simulation saved, and what that cost in accuracy.
type Wrapped struct {
	// Replicas is how many instances of the wrappers there were, and Wrap what was put
	// around the store, from outside in.
	Replicas int      `json:"replicas"`
	Wrap     []string `json:"wrap"`
	// StoreCalls is the calls of the store, those that gave units back included.
	StoreCalls       int64   `json:"store_calls"`
	CallsPerDecision float64 `json:"store_calls_per_decision"`
	// AllowedBesides and DeniedBesides are the requests that were allowed, or denied, and would not
	// have been without wrappers.
	AllowedBesides int64 `json:"allowed_differently"`
	DeniedBesides  int64 `json:"denied_differently"`
}

// Sees notes how far the audits of the limits could see that somebody else decides. The whole run's sensitivity is that of
// the limit of which least could be seen.
func (r *Run) Sees(all []interval.Sensitivity) {
	r.Audit.Sensitivity = nil
	for i := range all {
		s := &all[i]
		seen := &Sensitivity{LeastOver: s.LeastOver, LeastUnder: s.LeastUnder}
		if s.ChargesDenied {
			seen.UnderIfFree = s.UnderIfFree
			r.Warnings = append(r.Warnings, fmt.Sprintf("there was room for %s that %s denied, unless denied requests are "+
				"charged as well, as many limiters do; they are not counted as under-admitted", output.Plural(int(s.UnderIfFree), "unit"),
				r.Limits[i].Name))
		}
		if s.RetryApart > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("Retry-After of %s is up to %s later than needed, by another time on each denial, "+
				"so that clients come back apart; that is not counted as wrong", r.Limits[i].Name, s.RetryApart.Round(time.Millisecond)))
		}
		if s.PhaseKnown {
			phase, within := InMS(s.Phase), InMS(s.PhaseWithin)
			seen.PhaseMS, seen.PhaseWithinMS = &phase, &within
		}
		r.Limits[i].Audit.Sensitivity = seen
		if worst := r.Audit.Sensitivity; worst == nil || seen.LeastOver > worst.LeastOver || worst.LeastOver > 0 && seen.LeastOver == 0 {
			r.Audit.Sensitivity = seen
		}
	}
}

// InMS is a time in milliseconds, to the microsecond.
func InMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
