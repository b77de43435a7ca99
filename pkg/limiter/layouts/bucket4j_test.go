package layouts

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What bucket4j 8.19.0 wrote at bucket4jWritten: 10 a minute greedily with the id "per-min", and
// 100 an hour intervally, at first and after three were taken.
const (
	bucket4jWritten = store.Instant(1_795_294_331_450_000)
	bucket4jFresh   = "00000001000000010000000200000001000000000000000a000000000000000a0000000df8475800000000000000000a" +
		"008000000000000000000100077065722d6d696e00000001000000000000006400000000000000640000034630b8a00000000000000000640180000000" +
		"00000000000000000003000000010000000618ea2aaebd598280000000000000000a000000000000000018ea2aaebd59828000000000000000640000" +
		"000000000000000000010000000000000000"
	bucket4jThree = "00000002000000010000000200000001000000000000000a000000000000000a0000000df8475800000000000000000a" +
		"008000000000000000000100077065722d6d696e00000001000000000000006400000000000000640000034630b8a00000000000000000640180000000" +
		"00000000000000000003000000010000000618ea2aaebd5982800000000000000007000000000000000018ea2aaebd59828000000000000000610000" +
		"000000000000000000010000000000000003010000000000000007"
)

func unhex(text string) []byte {
	value, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return value
}

// bucket4jWith is bucket4jThree with the numbers of its state put in, those of the first
// bandwidth first.
func bucket4jWith(numbers ...int64) string {
	value := unhex(bucket4jThree)
	for i, number := range numbers {
		binary.BigEndian.PutUint64(value[len(value)-69+8*i:], uint64(number))
	}
	return string(value)
}

func bucket4jVectors() []vector {
	const storeKey = "user-42"
	key := store.Key{Subject: storeKey, Name: "bucket4j"}
	perMinute := admin.Entry{
		Key:   store.Key{Subject: storeKey, Name: "bucket4j/per-min"},
		Limit: store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Minute, Burst: 10},
	}
	perHour := admin.Entry{
		Key:   store.Key{Subject: storeKey, Name: "bucket4j/100/1h"},
		Limit: store.Limit{Algorithm: store.TokenBucket, Count: 100, Period: time.Hour, Burst: 100},
	}
	with := func(e admin.Entry, d store.Decision) admin.Entry {
		e.Decision = d
		return e
	}
	last := int64(bucket4jWritten) * 1000
	return []vector{
		{name: "fresh", storeKey: storeKey, key: key, now: bucket4jWritten, certain: true,
			values: []Value{text(storeKey, string(unhex(bucket4jFresh)), -1)},
			want: []admin.Entry{with(perMinute, store.Decision{Allowed: true, Remaining: 10}),
				with(perHour, store.Decision{Allowed: true, Remaining: 100})}},
		{name: "three taken", storeKey: storeKey, key: key, now: bucket4jWritten, certain: true,
			values: []Value{text(storeKey, string(unhex(bucket4jThree)), -1)},
			want: []admin.Entry{with(perMinute, store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: 18 * time.Second}),
				with(perHour, store.Decision{Allowed: true, Used: 3, Remaining: 97, ResetAfter: time.Hour})}},
		{name: "three taken and 7.0009 s later, built", storeKey: storeKey, key: key, now: bucket4jWritten + 7_000_900, certain: true,
			values: []Value{text(storeKey, string(unhex(bucket4jThree)), 2*time.Hour)},
			want: []admin.Entry{with(perMinute, store.Decision{Allowed: true, Used: 2, Remaining: 8, ResetAfter: 11 * time.Second}),
				with(perHour, store.Decision{Allowed: true, Used: 3, Remaining: 97, ResetAfter: time.Hour - 7*time.Second})}},
		{name: "negative, built", storeKey: storeKey, key: key, now: bucket4jWritten + 1_000_000, certain: true,
			values: []Value{text(storeKey, bucket4jWith(last, -4, 0, last, -150, 0), -1)},
			want: []admin.Entry{
				with(perMinute, store.Decision{Used: 14, RetryAfter: 29 * time.Second, ResetAfter: 83 * time.Second}),
				with(perHour, store.Decision{Used: 250, RetryAfter: 2*time.Hour - time.Second, ResetAfter: 3*time.Hour - time.Second})}},
		{name: "kept too short, built", storeKey: storeKey, key: key, now: bucket4jWritten, certain: true,
			values: []Value{text(storeKey, string(unhex(bucket4jThree)), time.Minute)},
			want: []admin.Entry{with(perMinute, store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: 18 * time.Second}),
				{Key: perHour.Key, Limit: perHour.Limit,
					Decision: store.Decision{Allowed: true, Used: 3, Remaining: 97, ResetAfter: time.Hour},
					Defects: []admin.Defect{{Kind: admin.ShortTTL,
						Text: "expires before its units have come back, so more is let through than the limit allows"}}}}},
		{name: "cut off", storeKey: storeKey, key: key, wrong: "not a bucket",
			values: []Value{text(storeKey, string(unhex(bucket4jThree)[:100]), -1)}},
		{name: "a byte more", storeKey: storeKey, key: key, wrong: "not a bucket",
			values: []Value{text(storeKey, string(unhex(bucket4jFresh))+"\x00", -1)}},
		{name: "a list", storeKey: storeKey, key: key, wrong: "a list, not a string",
			values: []Value{{StoreKey: storeKey, Type: ListValue}}},
	}
}

// TestBucket4jRefill holds the arithmetic to that of whole numbers of any size, as long as 64
// bits hold the library's products: no token comes too early, too late or twice.
func TestBucket4jRefill(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := bucket4jBandwidth{capacity: 1 + random.Int64N(1000), refill: 1 + random.Int64N(1000),
			period: 1000 + random.Int64N(int64(time.Hour)), intervally: random.IntN(2) == 0}
		b.tokens = random.Int64N(b.capacity)
		start, tokens := int64(1_000_000_000), b.tokens
		b.lastRefill = start
		now := start
		for range 5 {
			now += random.Int64N(b.period)
			b.refillTo(now)
		}
		passed := now - start
		if b.intervally {
			passed -= passed % b.period
		}
		come := new(big.Int).Mul(big.NewInt(passed), big.NewInt(b.refill))
		come.Quo(come, big.NewInt(b.period))
		want := min(b.capacity, tokens+come.Int64())
		if b.tokens != want {
			t.Fatalf("%+v has %d tokens %d ns after %d, want %d", b, b.tokens, now-start, tokens, want)
		}
		if b.tokens == b.capacity {
			continue
		}
		if wait := b.wait(b.tokens+1, now); wait <= 0 && b.period > b.refill {
			t.Fatalf("%+v waits %s for a token that is not there", b, wait)
		}
		wait, before := b.wait(b.capacity, now), b
		b.refillTo(now + int64(wait) + 1) // the library rounds a wait down
		if b.tokens != b.capacity {
			t.Fatalf("%+v has %d tokens after the wait %s until it is full", before, b.tokens, wait)
		}
	}
}

// TestBucket4jGreatNumbers: what 64 bits do not hold does not wrap around.
func TestBucket4jGreatNumbers(t *testing.T) {
	const great = math.MaxInt64
	b := bucket4jBandwidth{capacity: great, refill: great, period: great, tokens: 1}
	if b.refillTo(great / 2); b.tokens < great/4 {
		t.Errorf("half a period brought %d tokens", b.tokens)
	}
	b = bucket4jBandwidth{capacity: 10, refill: 1, period: int64(time.Hour), tokens: math.MinInt64, intervally: true}
	if wait := b.wait(1, 0); wait != never {
		t.Errorf("waits %s", wait)
	}
	if b.used() != great {
		t.Errorf("%d are used", b.used())
	}
}
