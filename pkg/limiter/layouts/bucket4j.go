package layouts

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// bandwidth is one of the limits of a bucket, with its state.
type bandwidth struct {
	id string
	wholeBucket
}

// limit returns the limit that a bandwidth is.
func (b *bandwidth) limit() store.Limit {
	return store.Limit{Algorithm: store.TokenBucket, Count: b.refill, Period: time.Duration(b.period),
		Burst: b.capacity}
}

// decodeBucket4j reads a bucket. The limits are in the value, so one that an operator gives does not count. They are
// named by their ids, or by themselves if they have none. If two are the same, the later one gets its position behind.
func decodeBucket4j(_ *row, found *Found) (Reading, error) {
	value := &found.Values[0]
	if value.Type != StringValue {
		return Reading{}, notA(value.Type, StringValue)
	}
	if value.Length != int64(len(value.Text)) {
		return Reading{}, errors.New("a longer string than a bucket is")
	}
	bandwidths, err := parseBucket4j(value.Text)
	if err != nil {
		return Reading{}, err
	}
	now := wholeMilliseconds(found.Now)
	reading, seen := Reading{Certain: true}, map[string]bool{}
	for i := range bandwidths {
		b := &bandwidths[i]
		b.refillTo(now)
		name := "bucket4j/" + b.id
		if b.id == "" {
			_, text, _ := strings.Cut(b.limit().String(), ":")
			name += text
		}
		if seen[name] {
			name = fmt.Sprintf("%s#%d", name, i+1)
		}
		seen[name] = true
		entry := admin.Entry{Key: store.Key{Subject: found.Key.Subject, Name: name}, Limit: b.limit()}
		entry.Remaining, entry.Used, entry.Allowed = max(0, b.tokens), b.used(), b.tokens >= 1
		entry.ResetAfter, entry.RetryAfter = b.wait(b.capacity, now), b.wait(1, now)
		if value.TTL >= 0 { // applications may keep buckets for ever
			entry.Defects = lifetime{passes: true}.defects(&entry, found.Values)
		}
		reading.Entries = append(reading.Entries, entry)
	}
	return reading, nil
}

// wholeMilliseconds is an instant in ns since 1970, as a clock of whole ms has it.
func wholeMilliseconds(at store.Instant) int64 { return int64(at) / 1000 * int64(time.Millisecond) }

// errNotBucket4j is of everything that bucket4j does not write.
var errNotBucket4j = errors.New("not a bucket")

// parseBucket4j reads a value. Everything is written the highest byte first:
//
//	4  the format of the value: 1, or 2 with the version of a configuration at the end
//	4  the format of the configuration: 1
//	4  how many bandwidths, then each as a stored4j, with 2 the length of an id and the id if it has one
//	4  the kind of the state: 3, integers | 4 its format: 1 | 4 how many numbers, then each 8:
//	     last refill in ns, tokens, rounding error
//	4  the format of the statistics: 1 | 8 tokens consumed so far
//	1  has a version of the configuration, and then 8 the version; in format 2 only
func parseBucket4j(value []byte) (bandwidths []bandwidth, err error) {
	r := bytes.NewReader(value)
	var head struct{ Format, Configuration, Bandwidths int32 }
	if !read4j(r, &head) || head.Format != 1 && head.Format != 2 || head.Configuration != 1 || head.Bandwidths < 1 {
		return nil, errNotBucket4j
	}
	for range head.Bandwidths {
		b, ok := readBandwidth(r)
		if !ok {
			return nil, errNotBucket4j
		}
		bandwidths = append(bandwidths, b)
	}
	var state struct{ Kind, Format, Numbers int32 }
	if read4j(r, &state) && state.Kind != 3 {
		return nil, errors.New("a bucket whose numbers are not 64-bit integers")
	}
	if state.Format != 1 || int64(state.Numbers) != 3*int64(head.Bandwidths) {
		return nil, errNotBucket4j
	}
	for i := range bandwidths {
		b := &bandwidths[i]
		var numbers [3]int64
		ok := read4j(r, &numbers)
		b.lastRefill, b.tokens, b.error = numbers[0], numbers[1], numbers[2]
		if !ok || b.tokens > b.capacity && b.error != 0 || b.error < 0 || b.error >= b.period {
			return nil, errNotBucket4j
		}
	}
	var end struct {
		Format   int32
		Consumed int64
	}
	ok := read4j(r, &end) && end.Format == 1 && end.Consumed >= 0
	if versioned := byte(0); head.Format == 2 {
		ok = ok && read4j(r, &versioned) && versioned <= 1 && (versioned == 0 || read4j(r, new(int64)))
	}
	if !ok || r.Len() > 0 {
		return nil, errNotBucket4j
	}
	return bandwidths, nil
}

// stored4j is the beginning of a bandwidth in a value.
type stored4j struct {
	Format                            int32
	Capacity, Initial, Period, Refill int64 // Period is in ns
	Intervally                        uint8
	FirstRefill                       int64
	Adaptive, HasID                   uint8
}

func readBandwidth(r *bytes.Reader) (b bandwidth, ok bool) {
	var s stored4j
	if !read4j(r, &s) || s.Format != 1 || max(s.Intervally, s.Adaptive, s.HasID) > 1 ||
		min(s.Capacity, s.Period, s.Refill) <= 0 || s.Initial < 0 || s.Refill > s.Period { // the library refuses that
		return b, false
	}
	b.wholeBucket = wholeBucket{capacity: s.Capacity, period: s.Period, refill: s.Refill, intervally: s.Intervally == 1}
	if s.HasID == 1 {
		var length uint16
		if !read4j(r, &length) || int(length) > r.Len() {
			return b, false
		}
		id := make([]byte, length)
		ok = read4j(r, id)
		b.id = strings.ToValidUTF8(string(id), "\uFFFD") // Java writes characters beyond 16 bits in another way
		return b, ok
	}
	return b, true
}

func read4j(r io.Reader, into any) bool { return binary.Read(r, binary.BigEndian, into) == nil }
