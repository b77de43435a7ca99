package foreign

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// What a layout writes so that so many units remain, it reads so again, whatever was there.
func TestSetRemainingIsReadAgain(t *testing.T) {
	for _, layout := range All() {
		setter, can := layout.(Setter)
		if !can {
			continue
		}
		set := 0
		for _, v := range vectors()[layout.Info().Name] {
			key, ok := layout.Match(v.storeKey, true)
			if v.wrong != "" || !ok {
				continue
			}
			for i := range v.want {
				if !v.want[i].RemainingKnown() || strings.Contains(v.want[i].Key.Name, "@") {
					continue // nothing would tell, or it is of a window long past
				}
				found := v.found(layout, key)
				if v.want[i].Key != (limiter.Key{}) {
					found.Key = v.want[i].Key // one of several limits in a value
				}
				for remaining := range int64(11) {
					if setAndRead(t, setter, v.name, found, i, remaining) {
						set++
					}
				}
			}
		}
		if set == 0 {
			t.Errorf("no vector of %s can be set", layout.Info().Name)
		}
	}
}

// setAndRead reports whether so many units could be set for the entry of a number.
func setAndRead(t *testing.T, layout Setter, name string, found *Found, number int, remaining int64) bool {
	t.Helper()
	name = layout.Info().Name + "/" + name
	writes, err := layout.SetRemaining(found, remaining)
	if err != nil {
		if !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("%s: %v is not of ErrInvalid", name, err)
		}
		return false
	}
	after := *found
	after.Values = slices.Clone(found.Values)
	for _, write := range writes {
		apply(t, &after, write)
	}
	reading, err := layout.Decode(&after)
	if err == nil && len(reading.Entries) == 0 && remaining == withAlgorithm(found.Limit, limiter.TokenBucket).Capacity() {
		return true // it is not there any more
	}
	if err != nil || len(reading.Entries) <= number {
		t.Fatalf("%s: it reads %+v, %v", name, reading, err)
	}
	e := &reading.Entries[number]
	if e.RemainingKnown() && (e.Remaining != remaining || e.Allowed != (remaining > 0)) {
		t.Errorf("%s: %d remain (allowed: %v) after %d were set by %+v", name, e.Remaining, e.Allowed, remaining, writes)
	}
	return true
}

// found is what a store would give to the layout's Decode, of the key that Match says unless
// it is said.
func (v *vector) found(layout Layout, key limiter.Key) *Found {
	if key == (limiter.Key{}) {
		key, _ = layout.Match(v.storeKey, true)
	}
	found := &Found{StoreKey: v.storeKey, Key: key, Now: v.now, Limit: v.limit}
	for _, storeKey := range layout.Together(v.storeKey, v.limit, v.now) {
		found.Values = append(found.Values, v.value(storeKey))
	}
	return found
}

// apply does to the values of a limit what a store does with a write.
func apply(t *testing.T, found *Found, write Write) {
	t.Helper()
	at := slices.IndexFunc(found.Values, func(v Value) bool { return v.StoreKey == write.StoreKey })
	if at < 0 {
		t.Fatalf("%+v is of a key that was not read", write)
	}
	value := &found.Values[at]
	if value.Type == NoValue {
		value.TTL = -1
	}
	if write.TTL > 0 {
		value.TTL = write.TTL
	}
	if write.Gone || write.TTL > 0 && write.TTL <= time.Millisecond { // it expires at once
		*value = Value{StoreKey: value.StoreKey, Type: NoValue, TTL: -2}
		return
	}
	if write.Field == "" {
		value.Type, value.Text, value.Length, value.Members = StringValue, []byte(write.Text), int64(len(write.Text)), nil
		return
	}
	value.Type, value.Members = HashValue, slices.Clone(value.Members)
	member := Member{Name: write.Field, Text: write.Text}
	if at := slices.IndexFunc(value.Members, func(m Member) bool { return m.Name == write.Field }); at >= 0 {
		value.Members[at] = member
	} else {
		value.Members = append(value.Members, member)
	}
	value.Length = int64(len(value.Members))
}
