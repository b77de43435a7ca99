package loadgen

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// Limit is one of the limits of a run, and its own audit. A run fills in what the limit denied and its audit; who made
// the run knows what the limit is.
type Limit struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Limit     string `json:"limit"`
	Shadow    bool   `json:"shadow,omitempty"`
	// Denied is the requests that this limit denied, or would have as a shadow.
	Denied int64 `json:"denied"`
	Audit
}

// Audit is how right the decisions were. Where a run has several limits it is the
// worst of their ratios and the sum of their units.
type Audit struct {
	audit.Totals
	// LimitReached is the most that any key had in use or asked for, with what it left to others, against the capacity;
	// below 1 the limit was never reached, and over-admission was not tested. Of several
	// limits it is that of the one reached least. It is nil where it is not known.
	LimitReached *float64 `json:"limit_reached,omitempty"`
	// Lies is the figures in answers compared with the truth; nil if none of them could be.
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
	// Fairness is Jain's index of the units that each key was admitted: 1 if all had the same, 1/keys if one had all.
	Fairness float64 `json:"fairness"`
	// Admitted is the units that all keys were admitted.
	Admitted float64 `json:"admitted_units,omitempty"`
	// UnderIfFree is the units that were denied wrongly unless denied requests are charged, too, which is not known of
	// a limit that somebody else decides.
	UnderIfFree int64 `json:"under_admitted_if_denied_are_free,omitempty"`
}

// Lies is how true the figures in answers were.
type Lies struct {
	// Checked is the answers whose figures were held against the truth, and Wrong those of them with a wrong figure.
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

// Reached is how much of the limit was in use at most: 1 is a limit that was reached. A
// limit that denied was reached, since a request may ask for more than is left.
func (l *Limit) Reached() float64 {
	switch {
	case l.Denied > 0:
		return 1
	case l.LimitReached != nil:
		return *l.LimitReached
	}
	return l.WorstRatio
}

// setFindings fills in the limits of a result, and the audit of those that can deny. name, if set, names a key of a
// limit.
func (r *Result) setFindings(findings []audit.Finding, isShadow func(limit int) bool,
	name func(limit int, key uint32) string) {
	r.findings, r.Audit, r.Limits = findings, Audit{Fairness: 1}, make([]Limit, len(findings))
	for i := range findings {
		nameOf := func(key uint32) string { return name(i, key) }
		r.Limits[i] = Limit{Denied: findings[i].Denied, Audit: Audit{Fairness: 1}}
		r.Limits[i].add(&findings[i], nameOf)
		if !isShadow(i) {
			r.Audit.add(&findings[i], nameOf)
		}
	}
}

// add adds what the audit of a limit found: the worst of the ratios and the sum of the units. name
// names a key by its index.
func (a *Audit) add(f *audit.Finding, name func(key uint32) string) {
	a.Totals.Add(&f.Totals)
	a.KeysOver += f.KeysOver
	a.UnderIfFree += f.UnderIfFree
	a.KeysUnder += f.KeysUnder
	if a.LimitReached == nil || f.PeakRatio < *a.LimitReached {
		a.LimitReached = &f.PeakRatio
	}
	a.addLies(f, name)
	a.Fairness = min(a.Fairness, f.Fairness)
	a.Admitted = max(a.Admitted, f.Charged)
}

// addLies adds the lies about a limit. Of a field about which answers lied under an earlier
// limit, too, that limit's evidence stays.
func (a *Audit) addLies(f *audit.Finding, name func(key uint32) string) {
	if f.Reported == 0 {
		return
	}
	if a.Lies == nil {
		a.Lies = new(Lies)
	}
	a.Lies.Checked += f.Reported
	a.Lies.Wrong += f.Lied
	for field := range f.Lies {
		lie := &f.Lies[field]
		if lie.Answers == 0 {
			continue
		}
		is := audit.Field(field)
		if known := slices.IndexFunc(a.Lies.Fields, func(l Lie) bool { return l.Field == is.String() }); known >= 0 {
			a.Lies.Fields[known].Answers += lie.Answers
			continue
		}
		a.Lies.Fields = append(a.Lies.Fields, Lie{
			Field: is.String(), Answers: lie.Answers, At: lie.At.Time(), Key: name(lie.Key),
			Reported: lieValue(is, lie.Reported, lie.Reported), True: lieValue(is, lie.True, lie.TrueMost),
		})
	}
}

// lieValue writes a value of a field, which is a range if it is not known exactly.
func lieValue(field audit.Field, least, most int64) string {
	write := func(n int64) string {
		if field.IsTime() {
			return time.Duration(n).String()
		}
		return fmt.Sprint(n)
	}
	if least == most {
		return write(least)
	}
	return write(least) + " to " + write(most)
}

// intervalAnswer is one limit's answer to one request, given at an unknown time between sent and answered.
type intervalAnswer struct {
	interval.Observation
	limit uint8
}

// sending is the time since which a worker has had a request under way, from the beginning of the run; idle if it
// has none.
type sending struct{ since atomic.Int64 }

// begin is called before a request is sent. It returns the instant that counts as the sending: it reads the clock
// only after it has stored since, so that the collector knows that nothing earlier can still come.
func (s *sending) begin(r *runner, sent time.Duration) time.Duration {
	if r.Intervals == nil {
		return sent
	}
	s.since.Store(int64(sent))
	return r.elapsed()
}

// recordInterval records the answers of all limits to a request.
func (w *worker) recordInterval(keys []uint32, own []int64, cost int64, sent, answered time.Duration, s *sample) {
	answer := interval.Unknown
	switch {
	case s.outcome == failed:
		return // it was not sent
	case s.outcome == unknown:
	case s.outcome == allowed:
		answer = interval.Admitted
	case len(keys) == 1:
		answer = interval.Denied
	default:
		answer = interval.Uncertain // nobody knows which of the limits denied
	}
	reported := w.reported
	if len(keys) > 1 {
		reported = nil // nobody knows which of the limits it is about
	}
	for limit, key := range keys {
		w.filled.intervals = append(w.filled.intervals, intervalAnswer{interval.Observation{
			Key: key, Sent: store.InstantOf(w.run.begin.Add(sent)), Answered: store.InstantOf(
				w.run.begin.Add(answered)),
			Cost: costOf(own, limit, cost), Answer: answer, Reported: reported}, uint8(limit)})
	}
}

// auditIntervals prepares the audit of intervals, if the run has one.
func (c *collector) auditIntervals() {
	p := c.run.Population
	for limit := 0; c.run.Intervals != nil && limit < p.limits; limit++ {
		auditor := interval.New(*c.run.Intervals)
		for key, owner := range p.owners[limit] {
			auditor.SetLimit(uint32(key), p.requests[owner].Limit)
		}
		c.intervals = append(c.intervals, auditor)
	}
}

// complete returns the time up to which all answers are recorded.
func (c *collector) complete() time.Duration {
	until := c.run.elapsed()
	for _, w := range c.run.workers {
		until = min(until, time.Duration(w.sending.since.Load()))
	}
	return until
}

// foldIntervals audits the answers to requests that were sent before an instant.
func (c *collector) foldIntervals(before store.Instant) {
	for _, auditor := range c.intervals {
		auditor.Settle(before)
	}
}

// addIntervals adds answers.
func (c *collector) addIntervals(answers []intervalAnswer) {
	for i := range answers {
		c.intervals[answers[i].limit].Observe(answers[i].Observation)
	}
}
