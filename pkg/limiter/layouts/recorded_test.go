package layouts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// recordedState is all that a Redis held at an instant, and what the limiter that had written it said then: a line of a
// file in testdata/recorded. docs/peers/recorded says how these were made.
type recordedState struct {
	// Case is what kind of limit it is, Limit the limit, as the peer of the limiter calls it, and ID the client.
	Case, Limit, ID string
	// At is when the keys were read. Nothing was written until Until. The peek was between these two, and the take
	// between Until and Taken.
	At, Until, Taken store.Instant
	Keys             []struct {
		Key   string
		Type  ValueType
		TTL   int64    // as PTTL says it
		Value [][]byte // a string, the members of a list, or fields and their texts in turns
	}
	// Peek is what the limiter said without a request, if it can. Take is its answer to one.
	Peek, Take recordedAnswer
}

// recordedAnswer is what a limiter said, as far as it says that.
type recordedAnswer struct {
	Now             store.Instant // by the clock of the limiter, if it tells it
	Allowed, Banned *bool
	Used, Remaining *int64
	DelayNs         int64 `json:"delay_ns"`
	Tokens          float64
}

// TestRecorded holds what we say of limits to what limits 2.8.0 for Python, Django REST framework 3.14, Laravel 8.83,
// Rack::Attack 6.6.1 and Traefik said of the same keys at the same time.
func TestRecorded(t *testing.T) {
	for _, layout := range []string{"limits", "drf", "laravel", "rack-attack", "traefik"} {
		lines := bytes.Split(bytes.TrimSpace(must(os.ReadFile("testdata/recorded/"+layout+".jsonl"))), []byte("\n"))
		if len(lines) < 100 {
			t.Fatalf("there are %d states of %s", len(lines), layout)
		}
		for i, line := range lines {
			var s recordedState
			if err := json.Unmarshal(line, &s); err != nil {
				t.Fatal(err)
			}
			t.Run(layout+"/"+strconv.Itoa(i+1), func(t *testing.T) { s.check(t, named(layout)) })
		}
	}
}

func (s *recordedState) check(t *testing.T, layout Layout) {
	storeKey, name, limit := "", layout.Info().Name, must(ParseLimit(s.Limit))
	for i := range s.Keys {
		v := vector{storeKey: s.Keys[i].Key, now: s.At, values: s.values(s.At)}
		entries, err := v.judge(autoSources(), &admin.Query{Subjects: pattern(t, "*")})
		if len(entries) == 0 || entries[0].Layout != name {
			t.Errorf("%s is claimed by %+v: %v", v.storeKey, entries, err)
		}
		if storeKey == "" {
			storeKey = v.storeKey
		}
	}
	window := func(now store.Instant) int64 { return int64(now) * 1000 / int64(limit.Period) }
	switch {
	case name == "rack-attack" && window(s.Until) != window(s.Taken): // the take may be of either
		return
	case name == "rack-attack" && s.Case == "throttle":
		storeKey = fmt.Sprintf("rack::attack:%d:req/ip:%s", window(s.Until), s.ID)
	case name == "rack-attack":
		storeKey, limit = "rack::attack:"+s.Case+":ban:"+s.ID, store.Limit{}
	case storeKey == "":
		if !*s.Take.Allowed {
			t.Fatalf("there is no key, and the limiter says %+v", s.Take)
		}
		return
	}
	at := func(now store.Instant) *admin.Entry { return s.entry(t, layout, storeKey, limit, now) }
	between := func(what string, said *int64, from, to store.Instant, of func(*admin.Entry) int64) {
		t.Helper()
		if said == nil {
			return
		}
		one, other := of(at(from)), of(at(to))
		if *said < min(one, other) || *said > max(one, other) {
			t.Errorf("%s is %d to %d, and the limiter says %d", what, one, other, *said)
		}
	}
	used := func(e *admin.Entry) int64 { return e.Used }
	remaining := func(e *admin.Entry) int64 { return e.Remaining }
	from, to := s.At, s.Until
	if s.Case == "moving" { // its stats count from a whole second on, as we do at one
		const second = 1_000_000
		from, to = from/second*second, to/second*second
	}
	if name != "laravel" || at(to).Used > 0 { // else Redis::throttle swaps what it says
		if s.Peek.Remaining != nil {
			*s.Peek.Remaining = max(0, *s.Peek.Remaining)
		}
		between("remaining", s.Peek.Remaining, from, to, remaining)
		between("used", s.Peek.Used, from, to, used)
	}
	if name != "rack-attack" || s.Case == "throttle" {
		between("used at the take", s.Take.Used, s.Until, s.Taken, used)
	}
	// What comes back meanwhile lets a request through, and nothing denies it. A recorded PTTL is of whole ms.
	const rounding = store.Instant(time.Millisecond / time.Microsecond)
	if *s.Take.Allowed && !at(s.Taken+rounding).Allowed {
		t.Errorf("%+v denies, and the limiter has allowed", at(s.Taken+rounding))
	}
	if !*s.Take.Allowed && at(max(s.Until-rounding, s.At)).Allowed {
		t.Errorf("%+v allows, and the limiter has denied", at(s.Until))
	}
	if name == "traefik" { // it said it at the same µs, of a copy of the bucket
		entry, tokens := at(s.Peek.Now), s.Peek.Tokens
		if *s.Peek.Allowed {
			tokens++ // it has taken one
		}
		whole, wait := int64(math.Floor(tokens)), entry.Delay+entry.RetryAfter
		if entry.Used != limit.Burst-whole || entry.Remaining != max(0, whole) || entry.Allowed != *s.Peek.Allowed ||
			(wait-time.Duration(s.Peek.DelayNs)).Abs() > 1 {
			t.Errorf("%+v, and Traefik says %+v", entry, s.Peek)
		}
	}
}

// values are those of all keys at an instant from At on, if nobody writes.
func (s *recordedState) values(at store.Instant) (values []Value) {
	for i := range s.Keys {
		key, ttl := &s.Keys[i], time.Duration(-1)
		if key.TTL >= 0 {
			if ttl = time.Duration(key.TTL)*time.Millisecond - time.Duration(at-s.At)*time.Microsecond; ttl <= 0 {
				continue
			}
		}
		var texts []string
		for _, b := range key.Value {
			texts = append(texts, string(b))
		}
		switch key.Type {
		case StringValue:
			values = append(values, text(key.Key, texts[0], ttl))
		case HashValue:
			values = append(values, hash(key.Key, ttl, texts...))
		default:
			values = append(values, list(key.Key, ttl, texts...))
		}
	}
	return values
}

// entry is what a layout says of the only limit of a store key at an instant. If it says nothing all of the limit
// remains.
func (s *recordedState) entry(t *testing.T, layout Layout, storeKey string, limit store.Limit,
	at store.Instant) *admin.Entry {
	t.Helper()
	v := vector{storeKey: storeKey, now: at, limit: limit, values: s.values(at)}
	reading, err := decode(layout, v.found(layout))
	if err != nil || len(reading.Entries) > 1 {
		t.Fatalf("%+v, %v", reading, err)
	}
	if len(reading.Entries) == 0 {
		return &admin.Entry{Limit: limit, Decision: store.Decision{Allowed: true, Remaining: limit.Capacity()}}
	}
	for _, defect := range reading.Entries[0].Defects {
		t.Errorf("%s has the defect %+v", storeKey, defect)
	}
	return &reading.Entries[0]
}
