package redisstore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func exactly(tb testing.TB, subject string) store.Pattern {
	tb.Helper()
	p, err := store.ExactPattern(subject)
	must(tb, err)
	return p
}

// setOverride sets one that adds units, or denies or lets through all.
func setOverride(t *testing.T, backend *redisstore.Store, effect store.OverrideEffect,
	lasts time.Duration) store.Override {
	t.Helper()
	o := store.Override{Effect: effect}
	if effect == store.OverrideAdd {
		o.Units = lasts.Milliseconds()
	}
	set, err := backend.SetOverride(ctx, o, lasts)
	must(t, err)
	return set
}

// sixBytes is a number as records hold it.
func sixBytes(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))[2:]) }

// The index ends with the last override that is left, and each override at its own end. What has ended is
// dropped from the index by whoever changes it next.
func TestWhatTheIndexOfOverridesHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	backend := newStore(t, server.Client())
	set := func(lasts time.Duration) store.Override { return setOverride(t, backend, store.OverrideAdd, lasts) }
	const index = "rl!{override}"
	want := func(left ...store.Override) {
		t.Helper()
		entries, last := "", left[0].ExpiresAt
		for _, o := range left {
			if entries += o.ID + sixBytes(o.ExpiresAt.UnixMilli()); o.ExpiresAt.After(last) {
				last = o.ExpiresAt
			}
		}
		if held, _ := server.Do("GET", index).(string); len(held) != 41+len(entries) ||
			held[3:9] != sixBytes(last.UnixMilli()) || held[41:] != entries {
			t.Errorf("the index is %q, want %q until %s", held, entries, last)
		}
		for key, end := range map[string]time.Time{index: last, index + ":" + left[0].ID: left[0].ExpiresAt} {
			ms, _ := server.Do("PEXPIRETIME", key).(int64) // the server counts from when it began the command
			if late := time.UnixMilli(ms).Sub(end).Abs(); late > 10*time.Second {
				t.Errorf("%s expires %s beside %s", key, late, end)
			}
		}
	}
	hour := set(time.Hour)
	want(hour)
	looks := server.CommandCalls("getrange")
	if _, err := backend.OverrideVersion(ctx); err != nil || server.CommandCalls("getrange") != looks+1 {
		t.Errorf("a look is not one GETRANGE: %v", err)
	}
	if all := fmt.Sprint(server.Do("KEYS", "rl:*")); strings.Contains(all, "override") {
		t.Errorf("rl:* finds %s", all)
	}
	day, short := set(24*time.Hour), set(time.Millisecond)
	for end := time.Now().Add(redistest.Patience); server.Do("EXISTS", index+":"+short.ID) != int64(0); {
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
	}
	minute := set(time.Minute)
	want(hour, day, minute)
	for _, o := range []store.Override{day, hour, minute} {
		_, found, err := backend.RevokeOverride(ctx, o.ID)
		if err != nil || !found || server.Do("EXISTS", index+":"+o.ID) != int64(0) {
			t.Fatalf("revoked: %v, %v", found, err)
		}
		if o.ID == day.ID {
			want(hour, minute)
		}
	}
	if server.Do("EXISTS", index) != int64(0) {
		t.Error("an index of none is still there")
	}
	// One that was evicted is left out, and an evicted index takes no override with it that is set later.
	set(time.Hour)
	server.Do("DEL", index+":"+set(2*time.Hour).ID)
	if list, _, err := backend.Overrides(ctx); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	server.Do("DEL", index)
	if list, version, err := backend.Overrides(ctx); err != nil || len(list) > 0 || version != "" {
		t.Errorf("%+v, %q, %v", list, version, err)
	}
	want(set(time.Hour))
}

// What somebody else has put there stays as it is, is said, and the overrides that can be read apply.
func TestForeignOverrides(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	backend := newStore(t, server.Client())
	first, second := setOverride(t, backend, store.OverrideBlock, time.Hour),
		setOverride(t, backend, store.OverrideExempt, time.Hour)
	const index = "rl!{override}"
	key := index + ":" + first.ID
	record, _ := server.Do("GET", key).(string)
	whole, _ := server.Do("GET", index).(string)
	damaged := func(value string) {
		t.Helper()
		list, _, err := backend.Overrides(ctx)
		if !errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), key) || len(list) != 1 ||
			list[0].ID != second.ID {
			t.Errorf("%.60q: %+v, %v", value, list, err)
		}
	}
	instants := func(created, expires int64) string {
		return record[:3] + sixBytes(created) + sixBytes(expires) + record[15:]
	}
	created, expires, month := first.CreatedAt.UnixMilli(), first.ExpiresAt.UnixMilli(),
		store.MaxOverrideTime.Milliseconds()
	for _, value := range []string{instants(created, 1<<48-1), instants(created, created+month+1),
		instants(1<<48-2, 1<<48-1),
		instants(0, expires), instants(expires, expires-1), instants(created+2*month, expires+2*month),
		"x", record[:10], record[:15], record[:15] + "{}", record[:15] + `{"effect":"limit","limit":"1/1ns"}`,
		record[:15] + `{"effect":"block","subject":"[a"}`, record[:15] + `{"effect":"block","attributes":{"a":"%zz"}}`,
		"RO\x02" + record[3:], record + strings.Repeat(" ", 20_000),
		record[:15] + `{"effect":"block","reason":"\u001b[31m"}`} {
		server.Do("SET", key, value)
		damaged(value)
	}
	server.Do("DEL", key)
	server.Do("RPUSH", key, "x")
	damaged("a list")
	if _, _, err := backend.RevokeOverride(ctx, first.ID); !errors.Is(err, store.ErrForeign) {
		t.Errorf("revoked a list: %v", err)
	}
	server.Do("SET", key, "x")
	if _, _, err := backend.RevokeOverride(ctx, first.ID); !errors.Is(err, store.ErrForeign) ||
		server.Do("GET", key) != "x" {
		t.Errorf("revoked a foreign value: %v", err)
	}
	at := strings.Index(whole, first.ID) + len(first.ID)
	server.Do("SET", index, whole[:at]+sixBytes(created-1)+whole[at+6:])
	if list, _, err := backend.Overrides(ctx); err != nil || len(list) != 1 {
		t.Errorf("beside a damaged one that has ended: %+v, %v", list, err)
	}
	plant := [][]any{{"SET", index, "x"}, {"SET", index, whole[:40]}, {"SET", index, whole + "x"},
		{"SET", index, "RI\x02" + whole[3:]},
		{"SET", index, whole[:41] + "a:b c\x00d*" + whole[49:]},
		{"SET", index, whole + strings.Repeat(whole[41:55], 1000)},
		{"RPUSH", index, "x"}}
	for _, words := range plant {
		server.Do("DEL", index)
		server.Do(words...)
		before := fmt.Sprint(server.Do("DUMP", index))
		if list, _, err := backend.Overrides(ctx); !errors.Is(err, store.ErrForeign) || len(list) > 0 {
			t.Errorf("%.80q: %+v, %v", words, list, err)
		}
		if words[0] == "RPUSH" || words[2] == "x" {
			if _, err := backend.OverrideVersion(ctx); !errors.Is(err, store.ErrForeign) {
				t.Errorf("%.80q: looked, %v", words, err)
			}
			_, err := backend.SetOverride(ctx, store.Override{Effect: store.OverrideBlock}, time.Hour)
			if !errors.Is(err, store.ErrForeign) {
				t.Errorf("%.80q: set, %v", words, err)
			}
			if fmt.Sprint(server.Do("DUMP", index)) != before {
				t.Errorf("%.80q: it was changed", words)
			}
		}
	}
}
