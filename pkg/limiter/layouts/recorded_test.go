package layouts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// recordedState is all that a Redis held at an instant, and what the limiter that had written it said
// then: a line of a file in testdata/recorded. docs/peers/recorded says how these were made.
type recordedState struct {
	// Case is what kind of limit it is, Limit the limit, as the peer of the limiter calls it, and ID
	// the client.
	Case, Limit, ID string
	// At is when the keys were read. Nothing was written until Until. The peek was between these
	// two, and the take between Until and Taken.
	At, Until, Taken store.Instant
	Keys             []recordedKey
	// Peek is what the limiter said without a request, if it can. Take is its answer to one.
	Peek *recordedAnswer
	Take recordedAnswer
}

type recordedKey struct {
	Key   string
	Type  ValueType
	TTL   int64    // as PTTL says it
	Value [][]byte // a string, the members of a list, or fields and their texts in turns
}

// recordedAnswer is what a limiter said, as far as it says that. Times are in seconds unless they
// say otherwise.
type recordedAnswer struct {
	Now             store.Instant // by the clock of the limiter, if it tells it
	Allowed, Banned *bool
	Used, Remaining *int64
	Reset, Retry    *float64
	ResetNs         int64 `json:"reset_ns"`
	RetryNs         int64 `json:"retry_ns"`
	DelayNs         int64 `json:"delay_ns"`
	Tokens          float64
}

// rounding is how inexact a recorded PTTL is.
const rounding = store.Instant(time.Millisecond / time.Microsecond)

// eachRecorded runs a test for each state of a file, which has the name of the layout that claims all its keys.
func eachRecorded(t *testing.T, file string, check func(*testing.T, *recordedState)) {
	lines := bytes.Split(bytes.TrimSpace(must(os.ReadFile("testdata/recorded/"+file+".jsonl"))), []byte("\n"))
	if len(lines) < 100 {
		t.Fatalf("there are %d states", len(lines))
	}
	for i, line := range lines {
		var state recordedState
		if err := json.Unmarshal(line, &state); err != nil {
			t.Fatal(err)
		}
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			for i := range state.Keys {
				if layout, err := state.claimed(t, state.Keys[i].Key); layout != file {
					t.Errorf("%s is claimed by %q: %v", state.Keys[i].Key, layout, err)
				}
			}
			check(t, &state)
		})
	}
}

// limit is the limit, as an operator would say it.
func (s *recordedState) limit() store.Limit {
	return must(ParseLimit(s.Limit))
}

// key returns the first store key with a beginning and an end, or "".
func (s *recordedState) key(beginning, end string) string {
	for i := range s.Keys {
		if key := s.Keys[i].Key; strings.HasPrefix(key, beginning) && strings.HasSuffix(key, end) {
			return key
		}
	}
	return ""
}

// value is what a store key holds at an instant from At on, if nobody writes.
func (s *recordedState) value(storeKey string, at store.Instant) Value {
	for i := range s.Keys {
		key := &s.Keys[i]
		if key.Key != storeKey {
			continue
		}
		value := Value{StoreKey: storeKey, Type: key.Type, Length: int64(len(key.Value)), TTL: -1}
		if key.TTL >= 0 {
			value.TTL = time.Duration(key.TTL)*time.Millisecond - time.Duration(at-s.At)*time.Microsecond
			if value.TTL <= 0 {
				break
			}
		}
		switch key.Type {
		case StringValue:
			value.Text, value.Length = key.Value[0], int64(len(key.Value[0]))
		case HashValue:
			value.Length /= 2
			for j := 0; j < len(key.Value); j += 2 {
				value.Members = append(value.Members, Member{Name: string(key.Value[j]), Text: string(key.Value[j+1])})
			}
		default:
			for _, member := range key.Value {
				value.Members = append(value.Members, Member{Name: string(member)})
			}
		}
		return value
	}
	return Value{StoreKey: storeKey, Type: NoValue, TTL: -2}
}

// entry is what a layout says of the only limit of a store key at an instant. If it says nothing
// all of the limit remains.
func (s *recordedState) entry(t *testing.T, layout Layout, storeKey string, limit store.Limit, at store.Instant) *admin.Entry {
	t.Helper()
	key, ok := layout.Match(storeKey, true)
	if !ok {
		t.Fatalf("%s does not match", storeKey)
	}
	found := &Found{StoreKey: storeKey, Key: key, Now: at, Limit: limit}
	for _, together := range layout.Together(storeKey, limit, at) {
		found.Values = append(found.Values, s.value(together, at))
	}
	reading, err := decode(layout, found)
	switch {
	case err != nil:
		t.Fatal(err)
	case len(reading.Entries) == 0:
		return &admin.Entry{Limit: limit, Decision: store.Decision{Allowed: true, Remaining: limit.Capacity()}}
	case len(reading.Entries) > 1:
		t.Fatalf("there are %d entries", len(reading.Entries))
	}
	for _, defect := range reading.Entries[0].Defects {
		// Traefik does keep a bucket for less than it takes to fill it.
		if layout != named("traefik") || defect.Kind != admin.ShortTTL {
			t.Errorf("%s has the defect %+v", storeKey, defect)
		}
	}
	return &reading.Entries[0]
}

// claimed is which layout has a store key if nobody is asked, or "" and why none has it.
func (s *recordedState) claimed(t *testing.T, storeKey string) (layout string, err error) {
	look := autoSources().Look(storeKey, &admin.Query{Subjects: pattern(t, "*")})
	if look == nil {
		return "", nil
	}
	look.StoreKeys(s.At)
	entries, _, err := look.Judge(func(storeKey string) Value { return s.value(storeKey, s.At) })
	if len(entries) > 0 {
		layout = entries[0].Layout
	}
	return layout, err
}

// checkAllowed holds what is said to be allowed to an answer that was given between two instants.
// What comes back meanwhile lets a request through, and nothing denies it.
func (s *recordedState) checkAllowed(t *testing.T, said bool, from, to store.Instant, entryAt func(store.Instant) *admin.Entry) {
	t.Helper()
	if said && !entryAt(to+rounding).Allowed {
		t.Errorf("%+v denies, and the limiter has allowed", entryAt(to+rounding))
	}
	if !said && entryAt(max(from-rounding, s.At)).Allowed {
		t.Errorf("%+v allows, and the limiter has denied", entryAt(from))
	}
}

// checkBetween holds a number that the limiter said between two instants to ours at these.
func checkBetween[N int64 | float64](t *testing.T, what string, said, one, other N) {
	t.Helper()
	if said < min(one, other) || said > max(one, other) {
		t.Errorf("%s is %v to %v, and the limiter says %v", what, one, other, said)
	}
}

// TestRecordedLimits holds what we say of limits to what Python's limits 2.8.0 said. It tells
// the reset of a fixed window in whole seconds, which it rounds twice, and that of a moving
// window from its newest request on, where newer versions tell the oldest; so that is left out.
// Its stats of a moving window count from a whole second on, as we do at a whole second.
func TestRecordedLimits(t *testing.T) {
	eachRecorded(t, "limits", func(t *testing.T, s *recordedState) {
		if len(s.Keys) == 0 {
			count, _, _ := strings.Cut(s.Limit, "/")
			if strconv.FormatInt(*s.Peek.Remaining, 10) != count || !*s.Take.Allowed {
				t.Fatalf("there is no key, and the limiter says %+v", s.Peek)
			}
			return
		}
		storeKey := s.Keys[0].Key
		_, said, _ := parseLimits(storeKey)
		at := func(now store.Instant) *admin.Entry { return s.entry(t, named("limits"), storeKey, said, now) }
		first, last := at(s.At), at(s.Until)
		if s.Case == "moving" {
			const second = 1_000_000
			first, last = at(s.At/second*second), at(s.Until/second*second)
		} else {
			s.checkAllowed(t, *s.Peek.Allowed, s.At, s.Until, at)
			rounded := func(e *admin.Entry) float64 { return math.Floor(e.ResetAfter.Seconds() + 0.5) }
			seconds := func(now store.Instant) float64 { return math.Floor(float64(now) / 1e6) }
			checkBetween(t, "reset", *s.Peek.Reset, seconds(s.At)+rounded(last), seconds(s.Until)+rounded(first))
		}
		checkBetween(t, "remaining", *s.Peek.Remaining, first.Remaining, last.Remaining)
		s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, at)
	})
}

// TestRecordedDRF holds what we say of throttles to what those of Django REST framework 3.14 said.
// Its clock is a float of seconds, which is not exact to the last digits of a µs.
func TestRecordedDRF(t *testing.T) {
	eachRecorded(t, "drf", func(t *testing.T, s *recordedState) {
		storeKey, limit := s.key(":1:throttle_", ""), s.limit()
		if storeKey == "" {
			if *s.Take.Used != 0 || !*s.Take.Allowed {
				t.Fatalf("there is no key, and the throttle says %+v", s.Take)
			}
			return
		}
		at := func(now store.Instant) *admin.Entry { return s.entry(t, named("drf"), storeKey, limit, now) }
		first, last := at(s.Until), at(s.Taken)
		checkBetween(t, "used", *s.Take.Used, first.Used, last.Used)
		s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, at)
		if s.Take.Retry != nil {
			const inexact = 2e-6
			checkBetween(t, "retry", *s.Take.Retry, first.RetryAfter.Seconds()+inexact, last.RetryAfter.Seconds()-inexact)
		}
		// The key tells the period.
		untold := s.entry(t, named("drf"), storeKey, store.Limit{Count: limit.Count}, s.Until)
		if untold.Limit.Period != limit.Period || untold.Used != first.Used {
			t.Errorf("without the period it says %+v", untold)
		}
	})
}

// TestRecordedLaravel holds what we say of Laravel's two limiters to what version 8.83 said. The
// RateLimiter tells a whole second at which it allows again, and allows when the timer's key is gone,
// which is less than a second later or earlier.
func TestRecordedLaravel(t *testing.T) {
	eachRecorded(t, "laravel", func(t *testing.T, s *recordedState) {
		storeKey, limit := s.key("laravel_database_", ""), s.limit()
		if storeKey == "" {
			if !*s.Take.Allowed {
				t.Fatalf("there is no key, and the limiter says %+v", s.Take)
			}
			return
		}
		at := func(now store.Instant) *admin.Entry { return s.entry(t, named("laravel"), storeKey, limit, now) }
		first, last := at(s.At), at(s.Until)
		s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, at)
		switch {
		case s.Case == "limiter":
			checkBetween(t, "used", *s.Peek.Used, first.Used, last.Used)
			checkBetween(t, "remaining", *s.Peek.Remaining, first.Remaining, last.Remaining)
			checkBetween(t, "reset", *s.Peek.Retry, last.ResetAfter.Seconds()-1, first.ResetAfter.Seconds()+1)
			if retry := first.RetryAfter; !*s.Take.Allowed && retry != first.ResetAfter {
				t.Errorf("retry is %s, and reset %s", retry, first.ResetAfter)
			}
		case last.Used > 0: // else it swaps the two, and nobody has to be told
			checkBetween(t, "remaining", max(0, *s.Peek.Remaining), first.Remaining, last.Remaining)
			if ends := s.At + store.Instant(first.ResetAfter/time.Microsecond); float64(ends) != *s.Peek.Reset*1e6 {
				t.Errorf("the window ends at %d, and the limiter says %v", ends, *s.Peek.Reset)
			}
		}
	})
}

// TestRecordedRackAttack holds what we say of Rack::Attack's counters and bans to what version
// 6.6.1 said. It tells when to retry in whole seconds of a clock that it cuts to whole seconds.
func TestRecordedRackAttack(t *testing.T) {
	eachRecorded(t, "rack-attack", func(t *testing.T, s *recordedState) {
		limit := s.limit()
		window := func(now store.Instant) int64 { return int64(now) * 1000 / int64(limit.Period) }
		if window(s.Until) != window(s.Taken) {
			return // the take may be of either
		}
		counter := func(now store.Instant) *admin.Entry {
			what := s.Case + ":count:"
			if s.Case == "throttle" {
				what = "req/ip:"
			}
			return s.entry(t, named("rack-attack"), fmt.Sprintf("rack::attack:%d:%s%s", window(s.Until), what, s.ID), limit, now)
		}
		entry := counter(s.Until)
		if s.Case == "throttle" {
			if *s.Take.Used != entry.Used {
				t.Errorf("%d are used, and the limiter says %d", entry.Used, *s.Take.Used)
			}
			s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, counter)
			if s.Take.Retry != nil {
				checkBetween(t, "retry", *s.Take.Retry, counter(s.Taken).RetryAfter.Seconds(), entry.RetryAfter.Seconds()+1)
			}
			return
		}
		ban := func(now store.Instant) *admin.Entry {
			return s.entry(t, named("rack-attack"), "rack::attack:"+s.Case+":ban:"+s.ID, store.Limit{}, now)
		}
		s.checkAllowed(t, !*s.Peek.Banned, s.At, s.Until, ban)
		s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, ban)
		if *s.Take.Allowed && *s.Take.Banned != (entry.Remaining <= 1) {
			t.Errorf("%+v, and the limiter bans: %v", entry, *s.Take.Banned)
		}
	})
}

// TestRecordedTraefik holds what we say of buckets to what Traefik's script said at the same µs,
// of a copy of the bucket. It tells how long a request waits as text of 14 digits.
func TestRecordedTraefik(t *testing.T) {
	eachRecorded(t, "traefik", func(t *testing.T, s *recordedState) {
		storeKey, limit := s.key("rate:", ""), s.limit()
		if storeKey == "" {
			if s.Peek.Tokens != float64(limit.Burst-1) || !*s.Take.Allowed {
				t.Fatalf("there is no key, and Traefik says %+v", s.Peek)
			}
			return
		}
		at := func(now store.Instant) *admin.Entry { return s.entry(t, named("traefik"), storeKey, limit, now) }
		entry, tokens := at(s.Peek.Now), s.Peek.Tokens
		if *s.Peek.Allowed {
			tokens++ // it has taken one
		}
		if whole := int64(math.Floor(tokens)); entry.Used != limit.Burst-whole || entry.Remaining != max(0, whole) {
			t.Errorf("%+v, and Traefik has %v tokens", entry, tokens)
		}
		if entry.Allowed != *s.Peek.Allowed {
			t.Errorf("%+v, and Traefik says %+v", entry, s.Peek)
		}
		if wait := entry.Delay + entry.RetryAfter; (wait - time.Duration(s.Peek.DelayNs)).Abs() > 1 {
			t.Errorf("a request waits %s, and Traefik says %d ns", wait, s.Peek.DelayNs)
		}
		s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, at)
	})
}
