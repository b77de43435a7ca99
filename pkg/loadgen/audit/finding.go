package audit

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Totals is how right decisions were: ratios and units.
type Totals struct {
	// WorstRatio is the most that any key was admitted against the limit: 1 is exactly the limit. For an algorithm
	// that counts windows it is the most units in any span of one period against the count. For a bucket it is the
	// fullest that it was against its burst, which is more than 1 exactly if in some span of time more than burst +
	// span × count ÷ period was admitted.
	WorstRatio float64 `json:"worst_window_ratio"`
	// WorstUnits is the most units that any key was admitted in a span of one period, open at one end.
	WorstUnits int64 `json:"worst_window_units"`
	// OverAdmitted is the least number of units that were too many: without them, and with no others, nothing charged
	// would have been beyond the limit. So one unit too many at the beginning does not make every later one wrong.
	// UnderAdmitted is the units denied that would have been allowed if all others denied wrongly had been charged:
	// denials of a unit that could be had once count once.
	OverAdmitted  int64 `json:"over_admitted"`
	UnderAdmitted int64 `json:"under_admitted"`
}

// Add adds what was found of others: the worst of the ratios and the sum of the units.
func (t *Totals) Add(others *Totals) {
	t.WorstRatio = max(t.WorstRatio, others.WorstRatio)
	t.WorstUnits = max(t.WorstUnits, others.WorstUnits)
	t.OverAdmitted += others.OverAdmitted
	t.UnderAdmitted += others.UnderAdmitted
}

// Finding is what an audit of one limit over all of its keys found.
type Finding struct {
	Totals
	// KeysOver and KeysUnder are the keys with any units over- and under-admitted.
	KeysOver, KeysUnder int64
	// PeakRatio is the most that any key had in use, or would have had with what it asked
	// for and left to others, against the capacity. It is at most 1 where nothing was over-admitted. Below 1,
	// the limit never had to deny, and over-admission was not tested.
	PeakRatio float64
	// Lies is the answers with wrong figures, by field, and Lied is how many answers reported anything wrong. They
	// are not about what was allowed, which the figures of admissions are about.
	Lies Lies
	Lied int64
	// Reported is the answers whose figures were compared with the truth.
	Reported int64
	// UnderIfFree is the units denied that it would have allowed, unless denied requests are charged as well, as many
	// limiters do. They are not among those under-admitted.
	UnderIfFree int64
	// Fairness is Jain's index, (Σx)² ÷ (n × Σx²), of the units charged to each of the n keys that asked: 1 if all
	// had as many, 1/n if one had all. It is 1 if nothing was charged.
	Fairness float64
	// Charged is Σx, the units charged, and ChargedSquares is Σx²; with them the
	// fairness over several audits of different keys can be told.
	Charged, ChargedSquares float64
	// Keys is the keys that asked, and KeysDenied those denied at least once.
	Keys, KeysDenied int64
	// Denied is the requests this limit denied.
	Denied int64
	// OutOfOrder is the observations that came too late to be put in order. They were
	// judged as if they had been made at the last instant known of their key.
	OutOfOrder int64
}

// Field is a figure that an answer tells.
type Field uint8

// The fields that are held against the truth, in the order in which a report lists them.
const (
	Remaining Field = iota
	Used
	RetryAfter
	ResetAfter
	Delay
	fields // how many there are
)

// String returns the field as JSON has it, such as "retry_after".
func (f Field) String() string {
	return [fields]string{"remaining", "used", "retry_after", "reset_after", "delay"}[f]
}

// IsTime reports whether the field is a duration; the others are units.
func (f Field) IsTime() bool { return f >= RetryAfter }

// Lies are the wrong answers of each field.
type Lies [fields]Lie

// Lie is what answers reported wrong in one field.
type Lie struct {
	// Answers is how many reported it wrong, 0 for none. The rest is about the first of them, in the order of instants.
	Answers int64
	// Key is the key that it was about, and At the instant of the decision.
	Key uint32
	At  store.Instant
	// Reported is what the answer said. The truth was from True to TrueMost, which differ only where requests of an
	// unknown outcome may have been charged. Of durations these are nanoseconds.
	Reported, True, TrueMost int64
}

// figuresOf returns what an answer should report that leaves a key in a state, with so much in use, but for the delay.
func figuresOf(s *store.State, r *rule, o *Observation, used int64) Figures {
	f := Figures{Used: used, Remaining: max(0, r.reach(o)-used), ResetAfter: between(o.At, s.UnusedAt(o.At))}
	if !o.Allowed && o.Cost <= r.reach(o) {
		f.RetryAfter = between(o.At, s.UsedAtMost(r.reach(o)-o.Cost, o.At))
	}
	return f
}

// between is the time from an instant to a later one.
func between(from, to store.Instant) time.Duration {
	return time.Duration(max(0, to-from)) * time.Microsecond
}

// compare compares what an answer reported with the truth, which is from least to most. Few units used mean
// many remaining.
func (a *Auditor) compare(o *Observation, least, most *Figures) {
	a.finding.Reported++
	got := o.Reported
	if *got == *least {
		return // nearly always
	}
	wrong := a.lie(o, Remaining, got.Remaining, most.Remaining, least.Remaining)
	wrong = a.lie(o, Used, got.Used, least.Used, most.Used) || wrong
	wrong = a.lie(o, RetryAfter, int64(got.RetryAfter), int64(least.RetryAfter), int64(most.RetryAfter)) || wrong
	wrong = a.lie(o, ResetAfter, int64(got.ResetAfter), int64(least.ResetAfter), int64(most.ResetAfter)) || wrong
	wrong = a.lie(o, Delay, int64(got.Delay), int64(least.Delay), int64(most.Delay)) || wrong
	if wrong {
		a.finding.Lied++
	}
}

// lie notes a field that is reported wrong, and reports whether it is.
func (a *Auditor) lie(o *Observation, field Field, reported, least, most int64) bool {
	if least <= reported && reported <= most {
		return false
	}
	lie := &a.finding.Lies[field]
	if lie.Answers == 0 {
		*lie = Lie{Key: o.Key, At: o.At, Reported: reported, True: least, TrueMost: most}
	}
	lie.Answers++
	return true
}
