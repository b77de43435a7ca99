package store_test

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// charges is what was charged to a counter, for reckoning the slow way.
type charges struct {
	at    []int64
	units []int64
}

// between returns the units charged from one instant until before another.
func (c *charges) between(from, until int64) (units int64) {
	for i, at := range c.at {
		if from <= at && at < until {
			units += c.units[i]
		}
	}
	return units
}

// used is the sum over the slices in view, the oldest by its share, and oldest what that one held.
func (c *charges) used(period, n, now int64) (used *big.Rat, oldest int64) {
	width := period / n
	current := now / width * width
	oldest = c.between(current-n*width, current-(n-1)*width)
	used = new(big.Rat).Mul(big.NewRat(oldest, 1), big.NewRat(current+width-now, width))
	for i := range n {
		used.Add(used, big.NewRat(c.between(current-i*width, current-(i-1)*width), 1))
	}
	return used, oldest
}

func roundedUp(r *big.Rat) int64 {
	quotient, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		return quotient.Int64() + 1
	}
	return quotient.Int64()
}

// A counter in slices uses what its definition says, in exact fractions, and differs
// from a log by no more than what its oldest slice in view held.
func TestSlicesAreTheSumOverSlices(t *testing.T) {
	const period = 7200 // µs
	for _, n := range []int64{1, 2, 6, 60, 3600} {
		limit := store.Limit{Algorithm: store.SlidingCounter, Count: store.MaxCount, Period: period * time.Microsecond,
			Slices: n}
		limit = normal(t, limit)
		exact := normal(t, store.Limit{Algorithm: store.SlidingLog, Count: store.MaxSlidingLogCount,
			Period: limit.Period})
		rapid.Check(t, func(t *rapid.T) {
			var counter, log store.State
			var made charges
			now := int64(1_700_000_000_000_000) + rapid.Int64Range(0, period).Draw(t, "begin")
			for range rapid.IntRange(1, 30).Draw(t, "charges") {
				later := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 2*period/n),
					rapid.Int64Range(0, period/4),
					rapid.Int64Range(0, 2*period))
				now += later.Draw(t, "later")
				want, oldest := made.used(period, n, now)
				got := counter.Used(store.Instant(now))
				if got != roundedUp(want) {
					t.Fatalf("%d slices: %d used, want %s of %+v", n, got, want, made)
				}
				if off := got - log.Used(store.Instant(now)); off > oldest || -off > oldest {
					t.Fatalf("%d slices: off by %d, and the oldest held %d", n, off, oldest)
				}
				units := rapid.Int64Range(1, 1000).Draw(t, "units")
				counter.Charge(limit, units, store.Instant(now))
				log.Charge(exact, units, store.Instant(now))
				made.at, made.units = append(made.at, now), append(made.units, units)
			}
		})
	}
}

// What a record of slices holds, byte by byte.
func TestRecordOfSlices(t *testing.T) {
	const at = 0x06123456789abc // in slice 0x06123456789abc / 100 ms, the last two bytes of which are 0x8bb9
	limit := normal(t, store.Limit{Algorithm: store.SlidingCounter, Count: 256, Period: time.Second, Slices: 10})
	var s, decoded store.State
	take(&s, limit, 7, at-200_000)
	take(&s, limit, 2, at)
	slice := uint32(at / 100_000 % 65536)
	want := slices.Concat([]byte("RL\x02\x06"), u32(256), u32(10), u56(1_000_000), u56(at),
		u16(0), u16(2), u32(0), u16(slice-2), u32(7), u16(slice), u32(9))
	record := s.AppendRecord(nil)
	if !slices.Equal(record, want) {
		t.Errorf("recorded as\n  %x\nnot\n  %x", record, want)
	}
	if err := decoded.DecodeRecord(record); err != nil || decoded.Limit != limit || decoded.Used(at) != 9 {
		t.Errorf("%+v, %v", decoded, err)
	}
	header, ring := want[:26], func(head, length, base uint32, entries ...uint32) []byte {
		b := slices.Concat(u16(head), u16(length), u32(base))
		for i := 0; i < len(entries); i += 2 {
			b = slices.Concat(b, u16(entries[i]), u32(entries[i+1]))
		}
		return b
	}
	with := func(at int, field ...byte) []byte {
		spoilt := slices.Clone(want)
		copy(spoilt[at:], field)
		return spoilt
	}
	damaged := func(problem string) string { return "a damaged limit record (" + problem + ")" }
	impossible := damaged("its ring holds impossible entries")
	for name, test := range map[string]struct {
		record []byte
		want   string // the error, "" if it is sound
	}{
		"of version 3": {with(2, 3), "a limit record of version 3, which this limitctl does not know"},
		"one slice":    {with(8, u32(1)...), damaged("1 slices of a kind that has several")},
		"slices that do not divide": {
			with(8, u32(7)...), damaged("a period of 1s cannot be cut into 7 slices of whole microseconds")},
		"the oldest there can be":    {slices.Concat(header, ring(0, 1, 0, slice-10, 9)), ""},
		"older than can be":          {slices.Concat(header, ring(0, 1, 0, slice-11, 9)), impossible},
		"newer than the record":      {slices.Concat(header, ring(0, 1, 0, slice+1, 9)), impossible},
		"more than was ever allowed": {slices.Concat(header, ring(0, 1, 0, slice, store.MaxCount+1)), impossible},
		"without a ring":             {header, damaged("26 bytes are not its length")},
		"as much as ever was allowed": {
			slices.Concat(header, ring(0, 2, 0, slice-10, store.MaxCount, slice, 2*store.MaxCount)), ""},
	} {
		got := ""
		if err := new(store.State).DecodeRecord(test.record); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func u16(n uint32) []byte { return u32(n)[2:] }
