package limiter_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// The layouts here are made up, each of what limiters in the world do: counters beside
// timers, windows in keys, many limits in one hash, times in a sorted set or a list,
// theoretical arrival times. They show that such pages can be written.

// windowCounter counts in "w:<subject>:<window>", a string for each window, whose number
// is not stored: the period is known from outside, or follows from the number.
type windowCounter struct{ limiter.Layout }

const windowSeconds = 60

func (windowCounter) Match(storeKey string) (limiter.Key, bool) {
	rest, ok := strings.CutPrefix(storeKey, "w:")
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 1 {
		return limiter.Key{}, false
	}
	if _, err := strconv.ParseInt(rest[i+1:], 10, 64); err != nil {
		return limiter.Key{}, false
	}
	return limiter.Key{Subject: rest[:i], Name: "window"}, true
}

// The window before still counts, so both are read whichever of them was met.
func (l windowCounter) Together(storeKey string, now limiter.Instant) []string {
	key, _ := l.Match(storeKey)
	window := int64(now) / (windowSeconds * 1e6)
	return []string{fmt.Sprintf("w:%s:%d", key.Subject, window), fmt.Sprintf("w:%s:%d", key.Subject, window-1)}
}

func (windowCounter) Decode(buf []limiter.Entry, found *limiter.Found) ([]limiter.Entry, error) {
	var counts [2]int64
	ttl := time.Duration(0)
	for i, value := range found.Values {
		if value.Type == limiter.NoValue {
			continue
		}
		n, err := strconv.ParseInt(string(value.Text), 10, 64)
		if value.Type != limiter.StringValue || err != nil || n < 0 {
			return buf, errors.New("something that is not a count")
		}
		counts[i], ttl = n, max(ttl, value.TTL)
	}
	limit := limiter.Limit{Algorithm: limiter.SlidingCounter, Period: windowSeconds * time.Second, Count: found.Limit.Count,
		Burst: found.Limit.Count}
	state := limiter.State{Limit: limit, Time: found.Now, Units: counts[0], Rest: counts[1]}
	used := state.Used(found.Now)
	switch {
	case used == 0:
		return buf, nil
	case limit.Count == 0:
		return append(buf, limiter.Entry{Key: found.Key, StoreKey: found.Values[0].StoreKey, Limit: limit, TTL: ttl,
			Decision: limiter.Decision{Used: used, At: found.Now, ResetAfter: ttl}}), nil
	}
	e := limiter.NewEntry(found.Key, found.Values[0].StoreKey, &state, found.Now)
	e.TTL = ttl
	return append(buf, e), nil
}

// perHost counts all subjects of a namespace in one hash, "h:<namespace>".
type perHost struct{ limiter.Layout }

func (perHost) Match(storeKey string) (limiter.Key, bool) {
	namespace, ok := strings.CutPrefix(storeKey, "h:")
	return limiter.Key{Name: namespace}, ok // the value says who
}

func (perHost) Decode(buf []limiter.Entry, found *limiter.Found) ([]limiter.Entry, error) {
	value := found.Values[0]
	if value.Type != limiter.HashValue {
		return buf, errors.New("something that is not a hash")
	}
	for _, field := range value.Members {
		used, err := strconv.ParseInt(field.Text, 10, 64)
		if err != nil {
			return buf, fmt.Errorf("a field of %q", field.Text)
		}
		e := limiter.Entry{Key: limiter.Key{Subject: field.Name, Name: found.Key.Name}, StoreKey: value.StoreKey,
			Limit: found.Limit, TTL: value.TTL,
			Decision: limiter.Decision{Used: used, At: found.Now, ResetAfter: value.TTL}}
		if e.CapacityKnown() {
			e.Remaining = max(0, e.Limit.Capacity()-used)
			e.Allowed = e.Remaining > 0
		}
		buf = append(buf, e)
	}
	return buf, nil
}

// arrivalTime keeps the time at which a bucket is empty again, in µs, and nothing else:
// without the limit that tells only when, not how much.
type arrivalTime struct{ limiter.Layout }

func (arrivalTime) Decode(buf []limiter.Entry, found *limiter.Found) ([]limiter.Entry, error) {
	value := found.Values[0]
	empty, err := strconv.ParseInt(string(value.Text), 10, 64)
	if err != nil {
		return buf, errors.New("something that is not a time")
	}
	left := time.Duration(max(0, empty-int64(found.Now))) * time.Microsecond
	e := limiter.Entry{Key: found.Key, StoreKey: value.StoreKey, Limit: found.Limit, TTL: value.TTL, UsedUnknown: true,
		Decision: limiter.Decision{At: found.Now, ResetAfter: left}}
	if e.LimitKnown() {
		used := math.Ceil(left.Seconds() / e.Limit.Period.Seconds() * float64(e.Limit.Count))
		state := limiter.State{Limit: e.Limit, Time: found.Now, Units: int64(used)}
		e = limiter.NewEntry(found.Key, value.StoreKey, &state, found.Now)
	}
	return append(buf, e), nil
}

// members counts the members of a sorted set whose score is in the last minute, or all
// elements of a list.
type members struct{ limiter.Layout }

func (members) Decode(buf []limiter.Entry, found *limiter.Found) ([]limiter.Entry, error) {
	value := found.Values[0]
	used := value.Length
	if value.Type == limiter.SortedSetValue {
		used = 0
		for _, member := range value.Members {
			if member.Score > float64(found.Now)/1e6-60 {
				used++
			}
		}
	}
	return append(buf, limiter.Entry{Key: found.Key, StoreKey: value.StoreKey, TTL: value.TTL, Decision: limiter.Decision{Used: used}}), nil
}

func one(t *testing.T, layout limiter.Layout, found *limiter.Found) limiter.Entry {
	t.Helper()
	entries, err := layout.Decode(nil, found)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	return entries[0]
}

func TestLayoutsOfOthersFit(t *testing.T) {
	now := limiter.Instant(1_700_000_050_000_000) // ten seconds into a minute
	key := limiter.Key{Subject: "203.0.113.9", Name: "window"}
	text := func(s string) limiter.Value {
		return limiter.Value{StoreKey: "k", Type: limiter.StringValue, Text: []byte(s), Length: int64(len(s)), TTL: time.Minute}
	}

	t.Run("several keys make one entry", func(t *testing.T) {
		layout := windowCounter{}
		window := int64(now) / 60e6
		storeKey := fmt.Sprintf("w:203.0.113.9:%d", window-1)
		if got, ok := layout.Match(storeKey); !ok || got != key {
			t.Fatalf("%s matches as %v, %v", storeKey, got, ok)
		}
		together := layout.Together(storeKey, now)
		if len(together) != 2 || together[1] != storeKey {
			t.Fatalf("together are %v", together)
		}
		found := &limiter.Found{Key: key, Now: now, Values: []limiter.Value{text("3"), text("6")}}
		if e := one(t, layout, found); e.CapacityKnown() || e.Used != 3+5 || e.RemainingKnown() || e.LimitText() != "sliding-counter:?/1m" {
			t.Errorf("without a limit it is %+v", e)
		}
		found.Limit.Count = 10
		if e := one(t, layout, found); !e.LimitKnown() || e.Used != 8 || e.Remaining != 2 || e.RetryAfter != 0 {
			t.Errorf("under a limit it is %+v", e)
		}
		found.Values[0].Type = limiter.NoValue
		if e := one(t, layout, found); e.Used != 5 {
			t.Errorf("without the current window it is %+v", e)
		}
		found.Values[1].Type = limiter.NoValue
		if entries, err := layout.Decode(nil, found); len(entries) != 0 || err != nil {
			t.Errorf("of nothing it makes %+v, %v", entries, err)
		}
	})

	t.Run("one key makes several entries", func(t *testing.T) {
		found := &limiter.Found{Key: limiter.Key{Name: "api"}, Now: now, Limit: limiter.Limit{Count: 5},
			Values: []limiter.Value{{StoreKey: "h:api",
				Type: limiter.HashValue, Members: []limiter.Member{{Name: "a", Text: "5"},
					{Name: "b", Text: "1"}}, Length: 2, TTL: time.Second}}}
		entries, err := perHost{}.Decode(nil, found)
		if err != nil || len(entries) != 2 || entries[0].Key != (limiter.Key{Subject: "a", Name: "api"}) ||
			!entries[0].AtLimit() || entries[1].AtLimit() {
			t.Errorf("%+v, %v", entries, err)
		}
	})

	t.Run("usage needs the limit", func(t *testing.T) {
		found := &limiter.Found{Key: key, Now: now, Values: []limiter.Value{text(strconv.FormatInt(int64(now)+30_000_000, 10))}}
		if e := one(t, arrivalTime{}, found); e.UsedKnown() || !e.ResetKnown() || e.ResetAfter != 30*time.Second {
			t.Errorf("without a limit it is %+v", e)
		}
		found.Limit = limiter.Limit{Algorithm: limiter.TokenBucket, Count: 10, Period: time.Minute, Burst: 10}
		if e := one(t, arrivalTime{}, found); !e.UsedKnown() || e.Used != 5 || e.Remaining != 5 {
			t.Errorf("under a limit it is %+v", e)
		}
	})

	t.Run("sorted sets and lists", func(t *testing.T) {
		scores := []limiter.Member{{Name: "a", Score: 1_699_999_900}, {Name: "b", Score: 1_700_000_000}, {Name: "c", Score: 1_700_000_029}}
		set := limiter.Value{StoreKey: "z", Type: limiter.SortedSetValue, Members: scores, Length: 3}
		if e := one(t, members{}, &limiter.Found{Now: now, Values: []limiter.Value{set}}); e.Used != 2 {
			t.Errorf("of the sorted set it makes %+v", e)
		}
		list := limiter.Value{StoreKey: "l", Type: limiter.ListValue, Members: scores[:1], Length: 250}
		if e := one(t, members{}, &limiter.Found{Now: now, Values: []limiter.Value{list}}); e.Used != 250 {
			t.Errorf("of the list it makes %+v", e)
		}
	})
}

func TestOwnLayoutDecodes(t *testing.T) {
	now := limiter.Instant(1_700_000_000_000_000)
	limit, err := limiter.Limit{Algorithm: limiter.SlidingLog, Count: 1000, Period: time.Minute}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	var s limiter.State
	for i := range limiter.Instant(100) {
		s.Charge(limit, 1, now+i)
	}
	record := s.AppendRecord(nil)
	layout := limiter.OwnLayout("rl")
	key := limiter.Key{Subject: "u", Name: "n"}
	found := func(kind limiter.ValueType, text []byte, length int) *limiter.Found {
		return &limiter.Found{Key: key, Now: now + 100, Values: []limiter.Value{{StoreKey: layout.StoreKey(key), Type: kind,
			Text: text, Length: int64(length), TTL: time.Hour}}}
	}
	whole := one(t, layout, found(limiter.StringValue, record, len(record)))
	if whole.Key != key || whole.StoreKey != "rl:{u}:n" || whole.Limit != limit || whole.Used != 100 ||
		whole.TTL != time.Hour || whole.State == nil || whole.State.IsShort() {
		t.Errorf("the whole record is %+v", whole)
	}
	beginning := one(t, layout, found(limiter.StringValue, record[:64], len(record)))
	if beginning.Limit != limit || beginning.UsedKnown() || beginning.State != nil || beginning.TTL != time.Hour {
		t.Errorf("its beginning is %+v", beginning)
	}
	if entries, err := layout.Decode(nil, found(limiter.NoValue, nil, 0)); len(entries) != 0 || err != nil {
		t.Errorf("of nothing it makes %+v, %v", entries, err)
	}
	for name, wrong := range map[string]*limiter.Found{
		"a hash": found(limiter.HashValue, nil, 0), "a text": found(limiter.StringValue, []byte("hello"),
			5), "a beginning of a text": found(limiter.StringValue, make([]byte, 64), 1000),
		"too long": found(limiter.StringValue, record[:64],
			limiter.MaxRecordSize+1), "one byte short": found(limiter.StringValue, record[:len(record)-1], len(record)-1),
	} {
		if entries, err := layout.Decode(nil, wrong); err == nil || len(entries) > 0 {
			t.Errorf("of %s it makes %+v", name, entries)
		}
	}
}

// Whatever a server answers, decoding ends without a panic, and with entries or an error.
func TestOwnLayoutDecodesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		if rapid.Bool().Draw(t, "like a record") {
			text = append([]byte("RL\x01\x01\x00\x00\x00\x0a\x00\x00\x00\x0a"), text...)
		}
		value := limiter.Value{StoreKey: "rl:{u}:n", Type: limiter.ValueType(rapid.IntRange(0, 6).Draw(t, "type")), Text: text,
			Length: rapid.Int64Range(0, 100).Draw(t, "length")}
		entries, err := limiter.OwnLayout("rl").Decode(nil, &limiter.Found{Values: []limiter.Value{value}, Now: 1})
		if len(entries) > 1 || err != nil && len(entries) > 0 {
			t.Fatalf("%+v, %v", entries, err)
		}
	})
}
