// Package joint keeps the answers of a load in few bytes, so that the answers of several
// machines that drove the same keys can be audited together.
package joint

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Bounds of a record, so that any record is read in bounded memory.
const (
	// MostEntries is how many answers a record holds, each limit's counted.
	MostEntries = 5_000_000
	// MostBytes is how large a record is.
	MostBytes = 48 << 20
	// MostKeys is how many keys it is about.
	MostKeys = 2_000_000
	// mostLimits is how many limits are decided together.
	mostLimits = 64
	// mostRules is how many different limits the keys are under.
	mostRules = 100_000
	// mostNameBytes is how long all names of keys are together. Where they are longer, keys have
	// numbers instead.
	mostNameBytes = 4 << 20
)

// Kind says what became of a request under one limit.
type Kind uint8

// The kinds, in the order in which answers of one instant are audited.
const (
	Charged Kind = iota
	Spared       // allowed, and not charged because another limit denied
	Refused
	Unknown // maybe charged: no answer came
)

// Entry is one limit's answer to one request, or an Unknown outcome.
type Entry struct {
	Kind  Kind
	Limit uint8 // which of those decided together
	// Doubted: the order of the answer among those of its key is not known. Tells: Told can be
	// held against the limit.
	Doubted, Tells bool
	Key            uint32 // among those of its limit
	Cost           uint32
	// At is the instant of the decision by the store's clock. Of an Unknown it is when it was
	// given up.
	At   store.Instant
	Told audit.Figures
}

// Keys are the keys of one limit, in the order of their indexes.
type Keys struct {
	Names []string
	// Limits are what each key is under, normalized.
	Limits []store.Limit
	// Doubted are those under several limits in turn.
	Doubted []uint32
}

// used orders the answers of one instant. An answer that told nothing comes after all that may
// explain it, unless it was charged.
func (e *Entry) used() int64 {
	switch {
	case e.Tells:
		return e.Told.Used
	case e.Kind == Charged:
		return 0
	}
	return 1 << 62
}

// The flags of an encoded entry; its kind is in the lowest two bits.
const (
	flagDoubted = 1 << (2 + iota)
	flagTells   // figures follow
	flagOne     // it costs one unit
	flagSameSum // used and remaining add up to as much as before
	flagNoRetry // retry-after is 0
	flagNoDelay // delay is 0

	kindBits = 3
)

// microseconds writes a duration as a number that is small for whole microseconds, which nearly
// all are.
func microseconds(d time.Duration) int64 {
	if d%time.Microsecond == 0 {
		return int64(d/time.Microsecond) << 1
	}
	return int64(d)<<1 | 1
}

// duration reads what microseconds wrote.
func duration(n int64) time.Duration {
	if n&1 == 0 {
		return time.Duration(n>>1) * time.Microsecond
	}
	return time.Duration(n >> 1)
}
