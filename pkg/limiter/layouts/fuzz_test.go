package layouts

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
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

// FuzzJudge lets all layouts judge whatever others may have written: under no mapping, and under one to any
// of them. Who claims a key has read it, claims only what was read, and its record can be restored.
func FuzzJudge(f *testing.F) {
	all := All()
	for i, layout := range all {
		for _, v := range vectors()[layout.Info().Name] {
			f.Add(uint8(i), v.storeKey, packValues(v.values), int64(v.now), v.limit.Count, int64(v.limit.Period), true)
		}
	}
	for i, alike := range corpus() {
		f.Add(uint8(i), alike.StoreKey, packValues([]Value{alike.Value}), int64(corpusNow), int64(10), int64(time.Minute), i%2 == 0)
	}
	everything := pattern(f, "*")
	f.Fuzz(func(t *testing.T, which uint8, storeKey string, packed []byte, now, count, period int64, maps bool) {
		limit := store.Limit{Count: max(0, count%1_000_000_000), Period: max(0, time.Duration(period)%(366*24*time.Hour))}
		sources := autoSources()
		mapped := all[int(which)%len(all)]
		if len(storeKey) > 1000 { // than any pattern
			return
		}
		if maps && storeKey != "" {
			sources = append(Sources{{Layout: mapped, Keys: exactly(t, storeKey), Limit: limit}}, sources...)
		}
		look := sources.Look(storeKey, &admin.Query{Subjects: everything})
		if look == nil {
			return
		}
		at := store.Instant(now & store.MaxInstant)
		if _, ok := mapped.Match(storeKey, true); ok {
			checkTogether(t, mapped, storeKey, true, limit, at)
		}
		storeKeys := look.StoreKeys(at)
		values := unpackValues(packed, storeKeys)
		entries, principal, err := look.Judge(func(of string) Value { return values[slices.Index(storeKeys, of)] })
		if err != nil && (len(entries) > 0 || errors.Is(err, store.ErrForeign) || err.Error() == "") {
			t.Fatalf("nobody asked for it, and it is %+v, %v", entries, err)
		}
		for i := range entries {
			e := &entries[i]
			layout, err := Named(e.Layout)
			if err != nil || !slices.Contains(storeKeys, principal) {
				t.Fatalf("%+v of %q: %v", e, principal, err)
			}
			checkReading(t, layout, e, storeKeys)
			if err := CheckRecord(&e.Record, exactly(t, e.StoreKey)); err != nil && len(e.Record.Members) > 0 {
				t.Fatalf("it cannot be restored: %v", err)
			}
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
