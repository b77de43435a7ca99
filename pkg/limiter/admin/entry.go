package admin

import (
	"slices"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Entry is the state of one key as Scan finds it, with the decision that a peek of one
// unit under Limit would get.
//
// Everything is known of a limit that limitctl wrote. What another limiter wrote may say
// less: how many requests were counted, for example, but not how many are allowed. Then
// the fields of Limit that are not known are zero, and the methods of Entry say which
// fields of the decision mean something. Those that do not are zero.
type Entry struct {
	Key      store.Key
	StoreKey string // the key as the store knows it
	// Limit is the one that the key was last charged under, or the one of [Query.InForce]. Then Recorded
	// is the one that it was charged under, if that is another one.
	Limit, Recorded store.Limit
	store.Decision
	// Layout names the layout of the limiter that wrote the keys, as package foreign has it;
	// empty for limitctl's own.
	Layout string
	// UsedUnknown: what is in use cannot be told without the limit.
	UsedUnknown bool
	// RetryTold and ResetTold: RetryAfter and ResetAfter are known although the limit is not,
	// or not all of it.
	RetryTold, ResetTold bool
	// Defects is what is wrong with keys that another limiter wrote.
	Defects []Defect
	// TTL is how long the store keeps the key; negative if for ever, which
	// only somebody else can have brought about.
	TTL time.Duration
	// Bytes is the memory the key takes in the store, if [Query.Bytes] asked.
	Bytes int64
	// Record is what the store holds, if [Query.Records] asked. For a limit of another
	// limiter it always names the store keys, in Parts, and if asked has their values.
	Record Record
	// State is what the store holds, decoded, if [Query.States] asked. It is nil unless
	// [store.State.IsShort], and where another limiter wrote the entry.
	State *store.State
}

// NewEntry describes the state s of key at now for q, for a store that lets the key
// expire when it is unused. The Entry has s as its State.
func NewEntry(q *Query, key store.Key, storeKey string, s *store.State, now store.Instant) Entry {
	reqs, decisions := [1]store.Request{{Key: key, Limit: s.Limit, Cost: 1}}, [1]store.Decision{}
	store.Decide(store.Peek, reqs[:], []*store.State{s}, decisions[:], now)
	entry := Entry{Key: key, StoreKey: storeKey, Limit: s.Limit, Decision: decisions[0], TTL: decisions[0].ResetAfter, State: s}
	q.describe(&entry, now)
	return entry
}

// UsedKnown reports whether Used is known.
func (e *Entry) UsedKnown() bool { return !e.UsedUnknown }

// CapacityKnown reports whether it is known how much is allowed at once.
func (e *Entry) CapacityKnown() bool { return e.Limit.Count > 0 }

// LimitKnown reports whether the whole limit is known, so that it can be decided under.
func (e *Entry) LimitKnown() bool {
	return e.Limit.Algorithm != 0 && e.Limit.Count > 0 && e.Limit.Period > 0
}

// RemainingKnown reports whether Allowed and Remaining are known.
func (e *Entry) RemainingKnown() bool { return e.UsedKnown() && e.CapacityKnown() }

// RetryKnown reports whether RetryAfter and Delay are known. They are not, whatever is known of
// the limit, where a key without an expiry denies.
func (e *Entry) RetryKnown() bool {
	return e.RetryTold || e.UsedKnown() && e.LimitKnown() && (e.Allowed || e.RetryAfter > 0)
}

// ResetKnown reports whether ResetAfter is known: by the limit, or by when the store
// lets go of the key. Other limiters may keep a key longer than it counts, or for ever.
func (e *Entry) ResetKnown() bool {
	return e.ResetTold || e.UsedKnown() && e.LimitKnown() && (e.Used == 0 || e.ResetAfter > 0) || e.Layout == "" && e.TTL >= 0
}

// IsStuck reports whether the entry has a defect that deleting its keys puts right.
func (e *Entry) IsStuck() bool {
	return slices.ContainsFunc(e.Defects, func(d Defect) bool { return d.Stuck })
}

// KeptOnPurpose reports whether the entry never expires because its limiter, another than
// limitctl, means it so: its units come back, and its reset is known.
func (e *Entry) KeptOnPurpose() bool {
	return e.Layout != "" && e.TTL < 0 && e.ResetKnown() &&
		!slices.ContainsFunc(e.Defects, func(d Defect) bool { return d.Kind == NeverExpires })
}

// AtLimit reports whether nothing is left, as far as that is known.
func (e *Entry) AtLimit() bool { return e.RemainingKnown() && e.Remaining == 0 }

// Share returns how much of its limit is used, 1 being all of it. known is false, and
// the share 0, if that cannot be told.
func (e *Entry) Share() (share float64, known bool) {
	if !e.RemainingKnown() {
		return 0, false
	}
	return float64(e.Used) / float64(e.Limit.Capacity()), true
}

// LimitText writes the limit as [store.ParseLimit] reads it, with a question mark for each
// part that is not known: "fixed-window:?/1m". It is "unknown" if none is.
func (e *Entry) LimitText() string {
	limit := &e.Limit
	if e.LimitKnown() {
		return limit.String()
	}
	if *limit == (store.Limit{}) {
		return "unknown"
	}
	text, count, period := "", "?", "?"
	if limit.Algorithm != 0 {
		text = limit.Algorithm.String() + ":"
	}
	if limit.Count > 0 {
		count = strconv.FormatInt(limit.Count, 10)
	}
	if limit.Period > 0 {
		period = store.FormatPeriod(limit.Period)
	}
	return text + count + "/" + period
}

// Defect is what is wrong with the keys of another limiter, whoever is to blame.
type Defect struct {
	Kind DefectKind
	// Text says what is wrong and what follows from it, in words, with the known issue if
	// there is one: "no expiry, so it denies for ever (Kong/kong#5763)".
	Text string
	// Stuck: it does not pass by itself, and deleting the keys puts it right.
	Stuck bool
}

// DefectKind is a kind of [Defect]. Its text is the word for it in machine formats.
type DefectKind string

// The kinds of defects.
const (
	// NeverExpires: a key without an expiry, whose limiter means it to have one.
	NeverExpires DefectKind = "never-expires"
	// AbsurdTTL: a key that is kept much longer than the limit can last, such as by
	// milliseconds that were given for seconds.
	AbsurdTTL DefectKind = "absurd-ttl"
	// ShortTTL: a key that is dropped before what it counts has passed, so that units come
	// back too early.
	ShortTTL DefectKind = "short-ttl"
	// Grows: a value that gets longer with each request and is not trimmed.
	Grows DefectKind = "grows"
)
