package layouts

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What Python 3.11 pickles of [1795294535.25, 1795294534.5] and of [1795294535.25].
const (
	pickledTwo = "80059517000000000000005d94284741dac08151d000004741dac08151a00000652e"
	pickledOne = "8005950d000000000000005d944741dac08151d00000612e"
	// What it writes of the two in protocol 2.
	pickledTwoOld = "80025d7100284741dac08151d000004741dac08151a00000652e"
)

func drfVectors() []vector {
	const (
		storeKey = ":1:throttle_user_42"
		now      = store.Instant(1_795_294_536_500_000)
	)
	key := store.Key{Subject: "42", Name: "drf/user"}
	limit := store.Limit{Algorithm: store.SlidingLog, Count: 2, Period: time.Minute, Burst: 2}
	told := store.Limit{Algorithm: store.SlidingLog, Period: time.Minute}
	const kept = 58_750 * time.Millisecond
	decided := store.Decision{Used: 2, RetryAfter: 58 * time.Second, ResetAfter: kept}
	return []vector{
		{name: "two, pickled by Python", storeKey: storeKey, key: key, now: now, limit: limit, certain: true,
			values: []Value{text(storeKey, string(unhex(pickledTwo)), kept)},
			want:   []admin.Entry{{Limit: limit, ResetTold: true, Decision: decided}}},
		{name: "two, pickled in protocol 2", storeKey: storeKey, key: key, now: now, limit: limit, certain: true,
			values: []Value{text(storeKey, string(unhex(pickledTwoOld)), kept)},
			want:   []admin.Entry{{Limit: limit, ResetTold: true, Decision: decided}}},
		{name: "one, pickled by Python, the period by the expiry", storeKey: storeKey, key: key, now: now, certain: true,
			values: []Value{text(storeKey, string(unhex(pickledOne)), kept)},
			want: []admin.Entry{{Limit: told, ResetTold: true,
				Decision: store.Decision{Used: 1, ResetAfter: kept}}}},
		{name: "one has passed", storeKey: ":1:throttle_login_burst_203.0.113.9",
			key: store.Key{Subject: "203.0.113.9", Name: "drf/login_burst"}, now: 1_795_294_594_500_000, limit: limit, certain: true,
			values: []Value{text(":1:throttle_login_burst_203.0.113.9", string(unhex(pickledTwo)), 800*time.Millisecond)},
			want: []admin.Entry{{Limit: limit, ResetTold: true,
				Decision: store.Decision{Allowed: true, Used: 1, Remaining: 1, ResetAfter: 750 * time.Millisecond}}}},
		{name: "the expiry is of no rate", storeKey: storeKey, key: key, now: now, certain: true,
			values: []Value{text(storeKey, string(unhex(pickledTwo)), 30*time.Second)},
			want:   []admin.Entry{{Limit: store.Limit{Algorithm: store.SlidingLog}, UsedUnknown: true}}},
		{name: "a pickled word", storeKey: storeKey, key: key, wrong: "not a pickled list of times",
			values: []Value{text(storeKey, "\x80\x05\x95\x06\x00\x00\x00\x00\x00\x00\x00\x8c\x02hi\x94.", time.Minute)}},
		{name: "a call", storeKey: storeKey, key: key, wrong: "not a pickled list of times",
			values: []Value{text(storeKey, "\x80\x02cos\nsystem\nq\x00U\x02lsq\x01\x85q\x02Rq\x03.", time.Minute)}},
	}
}

func djangoRatelimitVectors() []vector {
	const storeKey = ":1:rl:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	key := store.Key{Subject: storeKey[len(":1:rl:"):], Name: "django-ratelimit"}
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 5, Burst: 5}
	said := store.Limit{Count: 5, Period: time.Minute}
	return []vector{
		{name: "three, built", storeKey: storeKey, key: key, limit: said, certain: true, values: []Value{text(storeKey, "3", time.Minute)},
			want: []admin.Entry{{Limit: limit, RetryTold: true, Decision: store.Decision{Allowed: true, Used: 3, Remaining: 2}}}},
		{name: "denied ones count, built", storeKey: storeKey, key: key, limit: said, certain: true,
			values: []Value{text(storeKey, "8", time.Minute)},
			want:   []admin.Entry{{Limit: limit, Decision: store.Decision{Used: 8}}}},
		{name: "a word", storeKey: storeKey, key: key, wrong: "a string that is not a whole number",
			values: []Value{text(storeKey, "x", 1)}},
	}
}

// pickleTimes writes a list of numbers as Python does in protocol 4, without a frame.
func pickleTimes(times []float64) string {
	text := []byte{pickleProto, 4, pickleList, pickleMemoize}
	if len(times) > 0 {
		text = append(text, pickleMark)
		for _, at := range times {
			text = binary.BigEndian.AppendUint64(append(text, pickleFloat), math.Float64bits(at))
		}
		text = append(text, pickleAppends)
	}
	return string(append(text, pickleStop))
}

// TestPickledTimes writes lists and reads them, and what was cut off.
func TestPickledTimes(t *testing.T) {
	for n := range 5 {
		want := []float64{4, 3, 2, 1}[:n]
		text := pickleTimes(want)
		if got, whole, err := parsePickledTimes([]byte(text)); err != nil || !whole || !slices.Equal(got, want) {
			t.Errorf("%v comes back as %v, %v, %v", want, got, whole, err)
		}
		if got, whole, err := parsePickledTimes([]byte(text[:len(text)-1])); err != nil || whole || !slices.Equal(got, want) {
			t.Errorf("%v without its end is %v, %v, %v", want, got, whole, err)
		}
	}
}

// TestDrfLongList: a list that was not read to its end is enough if it reaches past the period.
func TestDrfLongList(t *testing.T) {
	const storeKey = ":1:throttle_user_42"
	times := make([]float64, 2000)
	for i := range times {
		times[i] = 1_795_294_536 - float64(i)
	}
	whole := pickleTimes(times)
	for _, c := range []struct {
		period time.Duration
		used   int64
		known  bool
	}{{time.Minute, 60, true}, {time.Hour, 0, false}} {
		found := &Found{StoreKey: storeKey, Key: store.Key{Subject: "42", Name: "drf/user"}, Now: 1_795_294_536_000_000,
			Limit: store.Limit{Count: 100, Period: c.period}, Values: []Value{text(storeKey, whole[:4096], c.period)}}
		found.Values[0].Length = int64(len(whole))
		reading, err := decode(drf{}, found)
		if err != nil || reading.Entries[0].UsedKnown() != c.known || reading.Entries[0].Used != c.used {
			t.Errorf("in %s: %+v, %v", c.period, reading, err)
		}
	}
}
