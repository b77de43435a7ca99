package store

import (
	"time"

	"github.com/limitctl/limitctl/internal/recordformat"
)

// Kind is a way of counting, by its number in records and in requests to scripts.
// Every algorithm is one, and a sliding counter in slices is one more. Kinds are for
// what stores do with records; people choose an [Algorithm].
type Kind uint8

// definition is all that the project knows about a kind. It stands with its rule, one file for each kind; lua/ has a
// file of the same name with the same rule.
type definition struct {
	name      string
	algorithm Algorithm // that this is the kind of
	rule      rule
	// hasBurst: its limits have a burst of their own, which is their capacity.
	hasBurst bool
	maxCount int64
	// stateSize is the bytes of a record after its header, 0 if that varies.
	stateSize int
	// version is the record format's that first had it, 0 for the first one.
	version uint8
	// inSlices: its limits have more than one slice.
	inSlices bool
	// described: it describes limits that others decide. No record is of it, and no script
	// decides it.
	described bool
	// recordsOf is the kind whose records and script these are, 0 for its own.
	recordsOf Kind
	// entries returns how many log entries a record under a limit can have, used units
	// being in use; nil if there is no log.
	entries func(l *Limit, used int64) int64
	// countsEachUnit: a log of every unit, so that what is in use is exactly what was
	// charged in the last period.
	countsEachUnit bool
	// queue says when an allowed request has its turn; nil if at once.
	queue queue
	// ahead says until when units that were taken ahead count as charged now, and how many
	// can be given back; nil if units cannot be taken ahead.
	ahead Ahead
	// fadesBy returns how long before it is unused a key has no more than room units in
	// use; nil if that depends on more than the limit. It may be a microsecond short.
	fadesBy func(limit Limit, room int64) time.Duration
}

// queue is a kind whose allowed requests wait for their turn.
type queue interface {
	// turn returns the instant at which everything in s by now has left at the rate of
	// limit, the one that takes over. The limit is passed by value, so that requests stay off the
	// heap.
	turn(s *State, limit Limit, now Instant) Instant
}

// Ahead is what a limit says whose units can be taken ahead of need: it does not matter which of the
// units that were charged lately are given back.
type Ahead interface {
	// End returns until when units charged at an instant may be used, and given back, as if
	// they were charged then.
	End(l *Limit, at Instant) Instant
	// Leaked returns at most how many units fade in so many microseconds before the end.
	Leaked(l *Limit, span int64) int64
	// Gone returns the instant from which units charged at an instant count no longer, and 0
	// if that depends on what else is charged.
	Gone(l *Limit, at Instant) Instant
}

// definitions holds every kind by its number, which never changes.
var definitions = [...]definition{
	TokenBucket:    tokenBucketDefinition,
	LeakyBucket:    leakyBucketDefinition,
	FixedWindow:    fixedWindowDefinition,
	SlidingLog:     slidingLogDefinition,
	SlidingCounter: slidingCounterDefinition,

	slicedCounterKind: slicedCounterDefinition,

	windowFromFirstKind: windowFromFirstDefinition,
}

// rule is a kind's rule of counting, as pure functions on a State whose Limit it
// wrote. Whether a request fits is the same for all of them: used + cost must
// not exceed the limit's capacity. They differ in how usage fades.
type rule interface {
	// used returns the units in use at now, rounded up.
	used(s *State, now Instant) int64
	// usedAtMost returns the first instant from now on at which used is room
	// or less, room being at least 0. For room 0 that is when s is unused.
	usedAtMost(s *State, room int64, now Instant) Instant
	// charge adds cost units at now, under s.Limit.
	charge(s *State, cost int64, now Instant)
	// refund takes cost units off at now, the newest first, down to none.
	refund(s *State, cost int64, now Instant)
	// excess returns how many units to refund so that exactly left of the inUse
	// at now stay in use.
	excess(s *State, inUse, left int64, now Instant) int64

	// appendState appends what a record of s holds after its header.
	appendState(buf []byte, s *State) []byte
	// readState reads that back into s, which has the header's Limit and Time, and
	// says what in it no rule would have written. What it lets through is within
	// the bounds that arithmetic needs.
	readState(r *recordReader, s *State) (problem string)
}

// wholeUnits is for rules by which a unit in use counts as one until it is gone.
type wholeUnits struct{}

func (wholeUnits) excess(_ *State, inUse, left int64, _ Instant) int64 { return inUse - left }

// Kinds lists every kind that stores keep, in the order of their numbers.
func Kinds() []Kind {
	kinds := make([]Kind, 0, len(definitions))
	for k := range definitions {
		if Kind(k).known() {
			kinds = append(kinds, Kind(k))
		}
	}
	return kinds
}

// known reports whether stores keep records of kind k.
func (k Kind) known() bool {
	return int(k) < len(definitions) && definitions[k].rule != nil && !definitions[k].described
}

// String returns the kind's name, such as "token-bucket".
func (k Kind) String() string { return definitions[k].name }

// Algorithm returns the algorithm that k is the kind of.
func (k Kind) Algorithm() Algorithm { return definitions[k].algorithm }

// RecordsOf returns the kind whose records and script k shares, k itself if it has
// its own.
func (k Kind) RecordsOf() Kind {
	if other := definitions[k].recordsOf; other != 0 {
		return other
	}
	return k
}

// RecordSize returns the bytes of a record of kind k, 0 if they vary. A record that
// always has the same size holds two numbers at most.
func (k Kind) RecordSize() int {
	if definitions[k].stateSize == 0 {
		return 0
	}
	return recordformat.HeaderSize + definitions[k].stateSize
}

// MostRecordBytes returns the most bytes that a record under l can have, which must be
// normalized, used units being in use: more than the capacity fits if l was lowered.
func (l *Limit) MostRecordBytes(used int64) int64 {
	kind := l.Kind()
	if entries := definitions[kind].entries; entries != nil {
		return int64(recordformat.HeaderSize) + recordformat.LogEntrySize*entries(l, used)
	}
	return int64(kind.RecordSize())
}

// CountsEachUnit reports whether a record of kind k has the time of every unit. Then what
// is in use is exactly what was charged in the last period, and takes memory for it.
func (k Kind) CountsEachUnit() bool { return definitions[k].countsEachUnit }

// HasSlices reports whether limits of kind k have more than one slice.
func (k Kind) HasSlices() bool { return definitions[k].inSlices }

// RecordVersion returns the version of the record format that records of kind k have.
func (k Kind) RecordVersion() uint8 { return max(recordformat.Version, definitions[k].version) }

// Kind returns the kind of l, which must be normalized.
func (l *Limit) Kind() Kind {
	switch {
	case l.Slices > 1:
		return slicedCounterKind
	case l.FromFirst:
		return windowFromFirstKind
	}
	return Kind(l.Algorithm)
}

// Ahead returns how units of l, which must be normalized, can be taken ahead of need; nil if they cannot.
func (l *Limit) Ahead() Ahead { return definitions[l.Kind()].ahead }

// FadesBy returns how long before it is unused a key under l, which must be normalized, has no more than room
// units in use. It may be a microsecond short. It is not known where that depends on more than the limit.
func (l *Limit) FadesBy(room int64) (before time.Duration, known bool) {
	fades := definitions[l.Kind()].fadesBy
	if fades == nil {
		return 0, false
	}
	return fades(*l, room), true
}
