package layouts

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf16"
)

// bucket4jState is the content of a value of bucket4j: its bandwidths, and what is left of each.
type bucket4jState struct {
	bandwidths []bucket4jBandwidth
}

// bucket4jBandwidth is a limit of a bucket. The state is at offset in the value: three numbers
// of eight bytes.
type bucket4jBandwidth struct {
	id         string
	capacity   int64
	period     int64 // of a refill, in ns
	refill     int64 // tokens a period
	intervally bool  // all of a period's tokens come at its end, not one after another
	offset     int

	lastRefill int64 // ns since 1970
	tokens     int64 // below 0 if tokens were reserved
	error      int64 // what was left of the last division, in tokens·ns
}

// errNotBucket4j is of everything that bucket4j does not write.
var errNotBucket4j = errors.New("not a bucket")

// parseBucket4j reads a value. Everything is written the highest byte first:
//
//	4  the format of the value: 1, or 2 with the version of a configuration at the end
//	4  the format of the configuration: 1
//	4  how many bandwidths, then each:
//	     4 the format: 1 | 8 capacity | 8 initial tokens | 8 period in ns | 8 tokens a period |
//	     1 intervally | 8 first refill in ms | 1 adaptive initial tokens |
//	     1 has an id, and then 2 its length and the id
//	4  the kind of the state: 3, integers | 4 its format: 1 | 4 how many numbers, then each 8:
//	     last refill in ns, tokens, rounding error
//	4  the format of the statistics: 1 | 8 tokens consumed so far
//	1  has a version of the configuration, and then 8 the version; in format 2 only
func parseBucket4j(value []byte) (*bucket4jState, error) {
	const numbers = 3
	r := binaryReader{rest: value}
	format := r.int32()
	if format != 1 && format != 2 || r.int32() != 1 {
		return nil, errNotBucket4j
	}
	state := &bucket4jState{}
	count := r.int32()
	for i := int32(0); i < count && !r.failed; i++ {
		b, ok := parseBandwidth(&r)
		if !ok {
			return nil, errNotBucket4j
		}
		state.bandwidths = append(state.bandwidths, b)
	}
	if kind := r.int32(); !r.failed && kind != 3 {
		return nil, errors.New("a bucket whose numbers are not 64-bit integers")
	}
	if r.int32() != 1 || int64(r.int32()) != numbers*int64(count) || count < 1 || r.failed {
		return nil, errNotBucket4j
	}
	for i := range state.bandwidths {
		b := &state.bandwidths[i]
		b.offset = len(value) - len(r.rest)
		b.lastRefill, b.tokens, b.error = r.int64(), r.int64(), r.int64()
		if b.tokens > b.capacity && b.error != 0 || b.error < 0 || b.error >= b.period {
			return nil, errNotBucket4j
		}
	}
	if r.int32() != 1 || r.int64() < 0 {
		return nil, errNotBucket4j
	}
	if format == 2 && r.flag() {
		r.int64()
	}
	if !r.atEnd() {
		return nil, errNotBucket4j
	}
	return state, nil
}

func parseBandwidth(r *binaryReader) (b bucket4jBandwidth, ok bool) {
	format := r.int32()
	b.capacity = r.int64()
	initial := r.int64()
	b.period, b.refill = r.int64(), r.int64()
	b.intervally = r.flag()
	r.int64()
	r.flag()
	if r.flag() {
		length := r.next(2)
		if length == nil {
			return b, false
		}
		if b.id, ok = fromModifiedUTF8(r.next(int(binary.BigEndian.Uint16(length)))); !ok {
			return b, false
		}
	}
	// The library refuses more than a token a nanosecond.
	return b, !r.failed && format == 1 && b.capacity > 0 && initial >= 0 && b.period > 0 && b.refill > 0 && b.refill <= b.period
}

// fromModifiedUTF8 reads a text as java.io.DataOutput writes it: the code units of UTF-16, each
// as if it were a character in UTF-8, and zero in two bytes.
func fromModifiedUTF8(text []byte) (string, bool) {
	units := make([]uint16, 0, len(text))
	for len(text) > 0 {
		size, unit := 1, uint16(text[0])
		switch {
		case unit == 0 || unit >= 0xf0 || unit&0xc0 == 0x80:
			return "", false
		case unit >= 0xe0:
			size, unit = 3, unit&0x0f
		case unit >= 0xc0:
			size, unit = 2, unit&0x1f
		}
		if size > len(text) {
			return "", false
		}
		for _, b := range text[1:size] {
			if b&0xc0 != 0x80 {
				return "", false
			}
			unit = unit<<6 | uint16(b&0x3f)
		}
		units, text = append(units, unit), text[size:]
	}
	return strings.ToValidUTF8(string(utf16.Decode(units)), "\uFFFD"), true
}

// refillTo adds the tokens that have come by an instant in ns since 1970, in the steps of the
// library: periods that have passed whole, then the part of one, whose division keeps its rest.
// Where 64 bits do not hold a product, it goes on in floating point, as the library does.
func (b *bucket4jBandwidth) refillTo(now int64) {
	if now <= b.lastRefill {
		return
	}
	since := now - b.lastRefill
	if b.intervally {
		since -= since % b.period
	}
	if since <= 0 {
		return
	}
	b.lastRefill += since
	if b.tokens >= b.capacity {
		return
	}
	tokens := b.tokens
	if since > b.period {
		// A sum that is too great for 64 bits has become less.
		if tokens += since / b.period * b.refill; tokens > b.capacity || tokens < b.tokens {
			b.fill()
			return
		}
		since %= b.period
	}
	product, fits := multiply(b.refill, since)
	rest := product + b.error
	if !fits || rest < 0 {
		tokens += toInt64(float64(since) / float64(b.period) * float64(b.refill))
		rest = 0
	} else {
		tokens += rest / b.period
		rest %= b.period
	}
	if tokens >= b.capacity || tokens < b.tokens {
		b.fill()
		return
	}
	b.tokens, b.error = tokens, rest
}

func (b *bucket4jBandwidth) fill() { b.tokens, b.error = b.capacity, 0 }

// never is the wait for what does not come: the longest duration.
const never = time.Duration(math.MaxInt64)

// wait returns how long it takes from now, an instant that the bandwidth was refilled to, until
// there are so many tokens. The library rounds down to whole nanoseconds.
func (b *bucket4jBandwidth) wait(tokens, now int64) time.Duration {
	if tokens <= b.tokens {
		return 0
	}
	missing := tokens - b.tokens
	if missing <= 0 {
		return never
	}
	if !b.intervally {
		product, fits := multiply(b.period, missing)
		if !fits {
			return time.Duration(toInt64(float64(missing) / float64(b.refill) * float64(b.period)))
		}
		return time.Duration((product - b.error) / b.refill)
	}
	periods := missing / b.refill
	if missing%b.refill == 0 {
		periods--
	}
	wait, fits := multiply(periods, b.period)
	if !fits {
		return never
	}
	if wait += b.lastRefill + b.period - now; wait < 0 {
		return never
	}
	return time.Duration(wait)
}

// multiply returns x·y, and whether 64 bits hold it. x is not negative.
func multiply(x, y int64) (product int64, fits bool) {
	product = x * y
	return product, x == 0 || product/x == y
}

// toInt64 rounds towards zero, and to the greatest or least number what is beyond it.
func toInt64(x float64) int64 {
	switch {
	case x != x:
		return 0
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x <= math.MinInt64:
		return math.MinInt64
	}
	return int64(x)
}
