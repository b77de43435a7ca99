package layouts

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// hostileTypes are the types of values, and some that are none.
func hostileTypes() []ValueType {
	return []ValueType{StringValue, HashValue, ListValue, SetValue, SortedSetValue, NoValue, "stream", ""}
}

// packValues and unpackValues turn values into bytes and any bytes into values, so that a fuzzer
// can change everything about them. A value has its type, TTL and length, and then its text or
// its members.
func packValues(values []Value) (packed []byte) {
	for i := range values {
		v := &values[i]
		packed = append(packed, byte(slices.Index(hostileTypes(), v.Type)))
		packed = binary.AppendVarint(packed, int64(v.TTL))
		packed = binary.AppendVarint(packed, v.Length)
		packed = appendText(packed, string(v.Text))
		packed = binary.AppendUvarint(packed, uint64(len(v.Members)))
		for _, member := range v.Members {
			packed = appendText(appendText(packed, member.Name), member.Text)
			packed = binary.BigEndian.AppendUint64(packed, math.Float64bits(member.Score))
		}
	}
	return packed
}

func appendText(packed []byte, text string) []byte {
	return append(binary.AppendUvarint(packed, uint64(len(text))), text...)
}

type unpacker struct{ rest []byte }

func (u *unpacker) byte() (b byte) {
	if len(u.rest) > 0 {
		b, u.rest = u.rest[0], u.rest[1:]
	}
	return b
}

func (u *unpacker) number() int64 {
	n, size := binary.Varint(u.rest)
	u.rest = u.rest[max(0, size):]
	if size < 0 {
		u.rest = nil
	}
	return n
}

func (u *unpacker) count(most int) int {
	n, size := binary.Uvarint(u.rest)
	u.rest = u.rest[max(0, size):]
	if size < 0 {
		u.rest = nil
	}
	return int(min(n, uint64(most)))
}

func (u *unpacker) text() string {
	n := u.count(len(u.rest))
	text := string(u.rest[:min(n, len(u.rest))])
	u.rest = u.rest[len(text):]
	return text
}

func unpackValues(packed []byte, storeKeys []string) (values []Value) {
	u := unpacker{packed}
	for _, storeKey := range storeKeys {
		types := hostileTypes()
		v := Value{StoreKey: storeKey, Type: types[int(u.byte())%len(types)], TTL: time.Duration(u.number()), Length: u.number()}
		if len(u.rest) == 0 { // nothing is said of the others
			v.Type = NoValue
		}
		v.Text = []byte(u.text())
		for range u.count(64) {
			member := Member{Name: u.text(), Text: u.text()}
			var score [8]byte
			u.rest = u.rest[copy(score[:], u.rest):]
			member.Score = math.Float64frombits(binary.BigEndian.Uint64(score[:]))
			v.Members = append(v.Members, member)
		}
		if v.Type == SortedSetValue { // as every server has it
			slices.SortFunc(v.Members, func(a, b Member) int { return cmp.Compare(a.Score, b.Score) })
		}
		values = append(values, v)
	}
	return values
}

// FuzzLayouts gives every layout what others may have written.
func FuzzLayouts(f *testing.F) {
	all := All()
	for i, layout := range all {
		for _, v := range vectors()[layout.Info().Name] {
			var values []Value
			for _, storeKey := range layout.Together(v.storeKey, v.limit, v.now) {
				values = append(values, v.value(storeKey))
			}
			f.Add(uint8(i), v.storeKey, true, packValues(values), int64(v.now), v.limit.Count, int64(v.limit.Period),
				v.limit.Burst, int64(1))
		}
	}
	for i, alike := range corpus() {
		f.Add(uint8(i), alike.StoreKey, false, packValues([]Value{alike.Value}), int64(corpusNow), int64(i%3), int64(time.Minute),
			int64(0), int64(0))
	}
	f.Fuzz(func(t *testing.T, which uint8, storeKey string, asked bool, packed []byte, now, count, period, burst, remaining int64) {
		layout := all[int(which)%len(all)]
		limit := store.Limit{Count: max(0, count%1_000_000_000), Period: max(0, time.Duration(period)%(366*24*time.Hour)),
			Burst: max(0, burst%1_000_000_000)}
		if limit.Count == 0 {
			limit = store.Limit{}
		}
		at := store.Instant(now & store.MaxInstant)
		key, ok := layout.Match(storeKey, asked)
		if !ok {
			return
		}
		if LayoutOf(key) != layout.Info().Name {
			t.Fatalf("the name of %+v does not begin with the layout's", key)
		}
		together := checkTogether(t, layout, storeKey, asked, limit, at)
		found := &Found{StoreKey: storeKey, Key: key, Values: unpackValues(packed, together), Now: at, Limit: limit}
		reading, err := decode(layout, found)
		if err != nil {
			if text := err.Error(); text == "" || len(text) > 200 || strings.ContainsAny(text, "\n\x00") {
				t.Fatalf("the error is %q", text)
			}
		}
		for i := range reading.Entries {
			checkReading(t, layout, &reading.Entries[i], together)
		}
		if setter, can := layout.(Setter); can {
			checkSetter(t, setter, found, remaining, together, err == nil)
		}
	})
}

// checkTogether returns the store keys that belong together, which have to be the same for each.
// Others that are not of the layout may be read with them.
func checkTogether(t *testing.T, layout Layout, storeKey string, asked bool, limit store.Limit, now store.Instant) []string {
	together := layout.Together(storeKey, limit, now)
	if !slices.Contains(together, storeKey) || len(together) > 8 {
		t.Fatalf("%q belongs to %q", storeKey, together)
	}
	for _, other := range together {
		if _, isOne := layout.Match(other, asked); !isOne {
			continue
		}
		if again := layout.Together(other, limit, now); !slices.Equal(sortedKeys(again), sortedKeys(together)) || again[0] != together[0] {
			t.Fatalf("%q belongs to %q, and %q of these to %q", storeKey, together, other, again)
		}
	}
	return together
}

func sortedKeys(keys []string) []string {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return keys
}

// checkReading checks that an entry says nothing that cannot be.
func checkReading(t *testing.T, layout Layout, e *admin.Entry, together []string) {
	switch {
	case e.Remaining < 0 || e.RetryAfter < 0 || e.ResetAfter < 0 || e.Delay < 0:
		t.Fatalf("of %s something is negative: %+v", layout.Info().Name, e)
	case e.Limit.Count < 0 || e.Limit.Period < 0 || e.Limit.Burst < 0 || e.Limit.Capacity() < 0:
		t.Fatalf("the limit cannot be: %+v", e.Limit)
	case e.Allowed && e.RetryAfter > 0:
		t.Fatalf("allowed only later: %+v", e)
	case e.Key != (store.Key{}) && LayoutOf(e.Key) != layout.Info().Name:
		t.Fatalf("the name of %+v does not begin with the layout's", e.Key)
	case e.StoreKey != "" && !slices.Contains(together, e.StoreKey):
		t.Fatalf("the entry is of %q, which is not one of %q", e.StoreKey, together)
	}
	for _, part := range e.Record.Members {
		if !slices.Contains(together, part.StoreKey) {
			t.Fatalf("a part is %q, which is not one of %q", part.StoreKey, together)
		}
	}
	_ = e.LimitText()
	if share, known := e.Share(); known && (math.IsNaN(share) || math.IsInf(share, 0)) {
		t.Fatalf("the share is %v: %+v", share, e)
	}
}

func checkSetter(t *testing.T, layout Setter, found *Found, remaining int64, together []string, isDecoded bool) {
	writes, err := layout.SetRemaining(found, max(0, remaining))
	if err != nil && isDecoded && !errors.Is(err, store.ErrInvalid) {
		t.Fatalf("the error is %v", err)
	}
	if err != nil {
		return
	}
	for _, write := range writes {
		if !slices.Contains(together, write.StoreKey) || write.TTL < 0 {
			t.Fatalf("it writes %+v", write)
		}
	}
}
