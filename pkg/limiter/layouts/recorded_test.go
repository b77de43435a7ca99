package layouts

import (
	"bytes"
	"encoding/json"
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

// eachRecorded runs a test for each state of a file.
func eachRecorded(t *testing.T, file string, check func(*testing.T, *recordedState)) {
	content, err := os.ReadFile("testdata/recorded/" + file + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	if len(lines) < 100 {
		t.Fatalf("there are %d states", len(lines))
	}
	for i, line := range lines {
		var state recordedState
		if err := json.Unmarshal(line, &state); err != nil {
			t.Fatal(err)
		}
		t.Run(strconv.Itoa(i+1), func(t *testing.T) { check(t, &state) })
	}
}

// limit is the limit, as an operator would say it.
func (s *recordedState) limit(t *testing.T) store.Limit {
	limit, err := ParseLimit(s.Limit)
	if err != nil {
		t.Fatal(err)
	}
	return limit
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
		if layout != (traefik{}) || defect.Kind != admin.ShortTTL {
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
