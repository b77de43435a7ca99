package store

import (
	"time"

	"github.com/limitctl/limitctl/internal/recordformat"
)

// Kind is a way of counting, by its number in records and in requests to scripts. Every algorithm is a kind, and so
// are a sliding counter in slices and a fixed window of a calendar. Kinds are for stores; people choose an [Algorithm].
type Kind uint8

// definition is all that the project knows about a kind. It stands with its rule, one file for each kind but those
// of fixed windows, which share one; lua/ has a file with the name of each kind and the same rule.
type definition struct {
	name      string
	algorithm Algorithm // that this is the kind of
	rule      rule
	// hasBurst: its limits have a burst of their own, which is their capacity.
	hasBurst bool
	maxCount int64
	// stateSize is the number of bytes of a record after its header, 0 if that varies.
	stateSize int
	// version is the first version of the record format that has the kind, 0 for the first one.
	version uint8
	// inSlices: its limits have more than one slice.
	inSlices bool
	// described: it describes limits that others decide. It has no records and no script.
	described bool
	// inCalendar: its limits are decided in windows of a calendar, whose bounds come with the request.
	inCalendar bool
	// recordsOf is the kind whose records and script it shares, 0 for its own.
	recordsOf Kind
	// entries returns the most log entries of a record under a limit while used units are in use; nil without a log.
	entries func(l *Limit, used int64) int64
	// countsEachUnit: the log has every unit, so the usage is exactly what was charged in the last period.
	countsEachUnit bool
	// queue returns the turn of an allowed request; nil if that is at once.
	queue queue
	// ahead is for units that are taken in advance; nil if the kind does not allow that.
	ahead Ahead
	// fadesBy returns how long before it is unused a key has at most room units in use; nil if that depends on more
	// than the limit. It may be a microsecond short.
	fadesBy func(limit Limit, room int64) time.Duration
}

// queue is a kind whose allowed requests wait for their turn.
type queue interface {
	// turn returns the instant at which everything in s at now has left at the rate of limit, which is the new
	// limit. The limit is passed by value, so that requests stay off the heap.
	turn(s *State, limit Limit, now Instant) Instant
}

// Ahead is for a limit whose units can be taken in advance: it makes no difference which of the recently charged
// units are given back.
type Ahead interface {
	// End returns until when units that were charged at an instant can be used or given back as if they were charged
	// then.
	End(l *Limit, at Instant) Instant
	// Leaked returns the most units that can fade in span microseconds before the end.
	Leaked(l *Limit, span int64) int64
	// Gone returns the instant from which units that were charged at an instant no longer count, and 0 if that
	// depends on other charges.
	Gone(l *Limit, at Instant) Instant
}

// definitions holds every kind by its number, which never changes.
var definitions = [...]definition{
	TokenBucket:    tokenBucketDefinition,
	LeakyBucket:    leakyBucketDefinition,
	FixedWindow:    fixedWindowDefinition,
	SlidingLog:     slidingLogDefinition,
	SlidingCounter: slidingCounterDefinition,

	slicedCounterKind:  slicedCounterDefinition,
	calendarWindowKind: calendarWindowDefinition,

	windowFromFirstKind: windowFromFirstDefinition,
}

// rule is a kind's rule of counting, as pure functions on a State whose Limit it wrote. A request fits if used +
// cost does not exceed the capacity of the limit; that is the same for all rules. They differ in how usage fades.
type rule interface {
	// used returns the units in use at now, rounded up.
	used(s *State, now Instant) int64
	// usedAtMost returns the first instant, not before now, at which used is at most room, which is at least 0. For
	// room 0 that is when s is unused.
	usedAtMost(s *State, room int64, now Instant) Instant
	// charge adds cost units at now, under s.Limit.
	charge(s *State, cost int64, now Instant)
	// refund removes cost units at now, the newest first, or all if there are fewer.
	refund(s *State, cost int64, now Instant)
	// excess returns how many units to refund so that exactly left of the inUse units at now stay in use.
	excess(s *State, inUse, left int64, now Instant) int64

	// appendState appends the record of s without its header.
	appendState(buf []byte, s *State) []byte
	// readState reads that back into s, which has the header's Limit and Time. problem says what no rule would have
	// written. Without a problem, the state is within the bounds of the arithmetic.
	readState(r *recordReader, s *State) (problem string)
}

// wholeUnits is for rules in which a unit counts fully until it is gone.
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

// RecordSize returns the number of bytes of a record of kind k, 0 if that varies. A record of fixed size holds at
// most two numbers.
func (k Kind) RecordSize() int {
	if definitions[k].stateSize == 0 {
		return 0
	}
	return recordformat.HeaderSize + definitions[k].stateSize
}

// MostRecordBytes returns the most bytes of a record under l, which must be normalized, while used units are in use.
// That can be more than the capacity if l was lowered.
func (l *Limit) MostRecordBytes(used int64) int64 {
	kind := l.Kind()
	if entries := definitions[kind].entries; entries != nil {
		return int64(recordformat.HeaderSize) + recordformat.LogEntrySize*entries(l, used)
	}
	return int64(kind.RecordSize())
}

// CountsEachUnit reports whether a record of kind k has the time of every unit. Then the usage is exactly what was
// charged in the last period, and takes memory for it.
func (k Kind) CountsEachUnit() bool { return definitions[k].countsEachUnit }

// HasSlices reports whether limits of kind k have more than one slice.
func (k Kind) HasSlices() bool { return definitions[k].inSlices }

// InCalendar reports whether limits of kind k are decided in windows of a calendar. A request has to say the bounds of
// its window then (see [Limit.InWindow]), and a script that finds them wrong decides nothing.
func (k Kind) InCalendar() bool { return definitions[k].inCalendar }

// DecidesShort reports whether a short script decides limits of kind k: their states are two numbers, and nothing else
// is to be looked at.
func (k Kind) DecidesShort() bool { return k.RecordSize() > 0 && !k.InCalendar() }

// RecordVersion returns the version of the record format that records of kind k have.
func (k Kind) RecordVersion() uint8 { return max(recordformat.Version, definitions[k].version) }

// Kind returns the kind of l, which must be normalized.
func (l *Limit) Kind() Kind {
	switch {
	case l.Slices > 1:
		return slicedCounterKind
	case l.Calendar != nil:
		return calendarWindowKind
	case l.FromFirst:
		return windowFromFirstKind
	}
	return Kind(l.Algorithm)
}

// Ahead returns the rules for units of l, which must be normalized, that are taken in advance; nil if l does not allow that.
func (l *Limit) Ahead() Ahead { return definitions[l.Kind()].ahead }

// FadesBy returns how long before it is unused a key under l, which must be normalized, has at most room units in
// use. It may be a microsecond short. known is false if that depends on more than the limit.
func (l *Limit) FadesBy(room int64) (before time.Duration, known bool) {
	fades := definitions[l.Kind()].fadesBy
	if fades == nil {
		return 0, false
	}
	return fades(*l, room), true
}
