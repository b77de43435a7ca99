package admin

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Entry is the state of one key in a scan, with the decision that a peek of one unit under Limit would get.
//
// For a limit that limitctl wrote, everything is known. Another limiter can store less: for example the number of
// requests, but not the limit. Then the unknown fields of Limit are zero, the methods of Entry say which fields of
// the decision are known, and the others are zero.
type Entry struct {
	Key      store.Key
	StoreKey string // the key in the store
	// Limit is that of the last charge, or the one of [Query.InForce]; then Recorded is the other, if they differ.
	Limit, Recorded store.Limit
	store.Decision
	// Layout is the name of the layout if another limiter wrote the keys; empty for limitctl's own.
	Layout string
	// UsedUnknown: the usage cannot be known without the limit.
	UsedUnknown bool
	// RetryTold and ResetTold: RetryAfter and ResetAfter are known although the limit is not, or only in part.
	RetryTold, ResetTold bool
	// Defects are the defects of keys that another limiter wrote.
	Defects []Defect
	// TTL is how long the store keeps the key; negative means for ever, which limitctl never causes.
	TTL time.Duration
	// Bytes is the memory of the key in the store, if [Query.Bytes] is set.
	Bytes int64
	// Record is what the store holds, if [Query.Records] is set. For a limit of another limiter, Members always has
	// the store keys, and their values only if it is set.
	Record Record
	// State is the decoded record of limitctl's own, if [Query.States] is set and it [store.State.IsShort].
	State *store.State
}

// NewEntry describes the state s of key at now for q, in a store in which an unused key expires. It keeps s.
func NewEntry(q *Query, key store.Key, storeKey string, s *store.State, now store.Instant) Entry {
	entry := Entry{Key: key, StoreKey: storeKey, Limit: s.Limit, Decision: peek(key, s.Limit, s, now), State: s}
	entry.TTL = entry.ResetAfter
	q.describe(&entry, now)
	return entry
}

// peek says what a limit would decide by a state.
func peek(key store.Key, limit store.Limit, s *store.State, now store.Instant) (d store.Decision) {
	store.DecideOne(store.Peek, &store.Request{Key: key, Limit: limit, Cost: 1}, s, &d, now)
	return d
}

// LastLimit returns the limit of the last charge, by which the usage fades.
func (e *Entry) LastLimit() store.Limit {
	if e.Recorded != (store.Limit{}) {
		return e.Recorded
	}
	return e.Limit
}

// UsedKnown reports whether Used is known.
func (e *Entry) UsedKnown() bool { return !e.UsedUnknown }

// CapacityKnown reports whether the most that is allowed at once is known.
func (e *Entry) CapacityKnown() bool { return e.Limit.Count > 0 }

// LimitKnown reports whether the whole limit is known, so that it can decide.
func (e *Entry) LimitKnown() bool {
	return e.Limit.Algorithm != 0 && e.Limit.Count > 0 && e.Limit.Period > 0
}

// RemainingKnown reports whether Allowed and Remaining are known.
func (e *Entry) RemainingKnown() bool { return e.UsedKnown() && e.CapacityKnown() }

// RetryKnown reports whether RetryAfter and Delay are known. Of a denying key without an expiry they are not.
func (e *Entry) RetryKnown() bool {
	return e.RetryTold || e.UsedKnown() && e.LimitKnown() && (e.Allowed || e.RetryAfter > 0)
}

// ResetKnown reports whether ResetAfter is known: from the limit, or from the expiry of the key. Other limiters can
// keep a key longer than it counts, or for ever.
func (e *Entry) ResetKnown() bool {
	return e.ResetTold || e.UsedKnown() && e.LimitKnown() && (e.Used == 0 || e.ResetAfter > 0) || e.Layout == "" &&
		e.TTL >= 0
}

// KeptOnPurpose reports whether another limiter keeps the entry for ever on purpose: its units come back.
func (e *Entry) KeptOnPurpose() bool {
	return e.Layout != "" && e.TTL < 0 && e.ResetKnown() &&
		!slices.ContainsFunc(e.Defects, func(d Defect) bool { return d.Kind == NeverExpires })
}

// NearShare is the used share from which a limit counts as nearly reached in tables, the dashboard and metrics.
const NearShare = 0.8

// AtLimit reports whether nothing remains, as far as that is known.
func (e *Entry) AtLimit() bool { return e.RemainingKnown() && e.Remaining == 0 }

// Share returns the used part of the limit; 1 is all of it. known is false, and the share 0, if that is unknown.
func (e *Entry) Share() (share float64, known bool) {
	if !e.RemainingKnown() {
		return 0, false
	}
	return float64(e.Used) / float64(e.Limit.Capacity()), true
}

// LimitText writes the limit in the form of [store.ParseLimit], with a question mark for each unknown part:
// "fixed-window:?/1m". It is "unknown" if no part is known.
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

// Defect is something wrong with the keys of another limiter, whatever the cause.
type Defect struct {
	Kind DefectKind
	// Text says what is wrong, and what follows: "no expiry, so it denies for ever (Kong/kong#5763)".
	Text string
	// Stuck: it does not pass by itself, but deleting the keys repairs it.
	Stuck bool
}

// DefectKind is a kind of [Defect], as the word of machine formats.
type DefectKind string

// The kinds of defects.
const (
	// NeverExpires: a key has no expiry, although its limiter sets one.
	NeverExpires DefectKind = "never-expires"
	// AbsurdTTL: a key is kept much longer than the limit can last, as when milliseconds are taken for seconds.
	AbsurdTTL DefectKind = "absurd-ttl"
	// Grows: a value grows with each request and is not trimmed.
	Grows DefectKind = "grows"
)

// OwnLayout is the layout of limitctl's own limits: a record, as
// [store.State.AppendRecord] writes it, under "<prefix>:{<subject>}:<name>".
//
// Its value is the prefix: OwnLayout("rl").
type OwnLayout string

// StoreKey returns the store key of k. The subject is the hash tag, so that its limits share a slot.
func (l OwnLayout) StoreKey(k store.Key) string {
	return string(l) + ":{" + k.Subject + "}:" + k.Name
}

// Glob returns a Redis glob that matches at least the store keys of limits whose subject and name match.
func (l OwnLayout) Glob(subjects, names store.Pattern) string {
	glob := store.EscapeGlob(string(l)) + ":{" + subjects.RedisGlob()
	switch {
	case !names.IsZero():
		return glob + "}:" + names.RedisGlob()
	case strings.HasSuffix(glob, "*") && !strings.HasSuffix(glob, `\*`):
		return glob // to look for what follows a "*" would cost Redis time for each key
	}
	return glob + "}:*"
}

// Match returns the key of a store key. ok is false if the store key is not one of a limit under the prefix.
func (l OwnLayout) Match(storeKey string) (k store.Key, ok bool) {
	rest, ok := strings.CutPrefix(storeKey, string(l))
	if ok {
		rest, ok = strings.CutPrefix(rest, ":{")
	}
	if !ok {
		return store.Key{}, false
	}
	k.Subject, k.Name, ok = strings.Cut(rest, "}:")
	if !ok || k.Name == "" || k.Validate() != nil {
		return store.Key{}, false
	}
	return k, true
}

// Held is what a store holds under the store key of a limit.
type Held struct {
	StoreKey string
	// Text is the value, or the beginning of a long one, whose length is Length.
	Text   []byte
	Length int64 // in bytes
	// TTL is how long the store keeps the value; negative if for ever.
	TTL time.Duration
}

// errTooLong is the error about a value that is longer than any record.
var errTooLong = errors.New("more bytes than any record has")

// Entry returns the entry of key for q, from held at now; with only the beginning of a long record, the limit but not
// the usage. The error says what is wrong with the value, for [store.ForeignError].Holds.
func (l OwnLayout) Entry(q *Query, key store.Key, held *Held, now store.Instant) (Entry, error) {
	switch {
	case held.Length > int64(store.MaxRecordSize):
		return Entry{}, errTooLong
	case held.Length > int64(len(held.Text)):
		limit, err := store.DecodeRecordLimit(held.Text)
		if err != nil {
			return Entry{}, err
		}
		entry := Entry{Key: key, StoreKey: held.StoreKey, Limit: limit, UsedUnknown: true, TTL: held.TTL}
		q.describe(&entry, now)
		return entry, nil
	}
	var state store.State
	if err := state.DecodeRecord(held.Text); err != nil {
		return Entry{}, err
	}
	entry := NewEntry(q, key, held.StoreKey, &state, now)
	entry.TTL = held.TTL // as in the store, where somebody may have changed it
	return entry, nil
}
