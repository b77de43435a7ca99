package layouts

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var update = flag.Bool("update", false, "write what sets the remaining units of the vectors now")

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
				if v.want[i].Key != (store.Key{}) {
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
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v is not of ErrInvalid", name, err)
		}
		return false
	}
	before, err := decode(layout, found)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	after := *found
	after.Values = slices.Clone(found.Values)
	for _, write := range writes {
		apply(t, &after, write)
	}
	reading, err := decode(layout, &after)
	if err == nil && len(reading.Entries) == 0 && remaining == withAlgorithm(found.Limit, store.TokenBucket).Capacity() {
		return true // it is not there any more
	}
	if err != nil || len(reading.Entries) <= number {
		t.Fatalf("%s: it reads %+v, %v", name, reading, err)
	}
	e := &reading.Entries[number]
	if before.Certain && !reading.Certain && e.Used > 0 {
		t.Errorf("%s: it is not certain of what is written, %+v", name, writes)
	}
	if e.RemainingKnown() && (e.Remaining != remaining || e.Allowed != (remaining > 0)) {
		t.Errorf("%s: %d remain (allowed: %v) after %d were set by %+v", name, e.Remaining, e.Allowed, remaining, writes)
	}
	return true
}

// What is written is just what the testdata says: of each vector, for none, three and all units to remain,
// each value by its number among those that are read, with field, text and time to live.
func TestWhatIsWrittenToSetRemaining(t *testing.T) {
	const path = "testdata/set.txt"
	var b strings.Builder
	for _, layout := range All() {
		setter, can := layout.(Setter)
		if !can {
			continue
		}
		name := layout.Info().Name
		for _, v := range vectors()[name] {
			for i := range v.want {
				found := v.found(layout, v.want[i].Key)
				for _, remaining := range slices.Compact([]int64{0, min(3, v.limit.Capacity()), v.limit.Capacity()}) {
					if writes, err := setter.SetRemaining(found, remaining); err == nil {
						fmt.Fprintf(&b, "%s, %s, entry %d, %d remain:%s\n", name, v.name, i, remaining, writesText(found, writes))
					}
				}
			}
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	isWritten, isWanted := strings.SplitAfter(b.String(), "\n"), strings.SplitAfter(string(want), "\n")
	for _, line := range isWritten {
		if !slices.Contains(isWanted, line) {
			t.Errorf("not in %s: %s", path, line)
		}
	}
	if len(isWritten) != len(isWanted) {
		t.Errorf("%d lines, and %d in %s; run with -update and read the difference", len(isWritten), len(isWanted), path)
	}
}

// writesText is writes for people, with everything that is in them.
func writesText(found *Found, writes []Write) string {
	var b strings.Builder
	for _, w := range writes {
		fmt.Fprintf(&b, " %d", slices.IndexFunc(found.Values, func(v Value) bool { return v.StoreKey == w.StoreKey }))
		if w.Field != "" {
			fmt.Fprintf(&b, ".%s", w.Field)
		}
		if fmt.Fprintf(&b, "=%q", w.Text); w.TTL != 0 {
			fmt.Fprintf(&b, " for %s", w.TTL)
		}
		if w.Gone {
			b.WriteString(" gone")
		}
	}
	return b.String()
}

// found is what a store would give to the layout's Decode, of the key that Match says unless
// it is said.
func (v *vector) found(layout Layout, key store.Key) *Found {
	if key == (store.Key{}) {
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
