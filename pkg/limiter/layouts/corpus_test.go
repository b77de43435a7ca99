package layouts

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The corpus is what databases hold beside limits: keys, types, values and expiries as programs write them that limit
// nothing, and keys of limitctl itself. No layout may claim any of it.

// corpusNow is when the corpus was written: 2026-11-21, noon.
const corpusNow store.Instant = 1_795_262_400_000_000

// lookAlike is one key, with what is under it.
type lookAlike struct {
	what string // what wrote it
	Value
}

// corpus returns all of it: a line of the file has what wrote it, the store key and the value, as samples have it.
func corpus() (all []lookAlike) {
	for line := range strings.Lines(string(must(os.ReadFile("testdata/strangers.txt")))) {
		if fields := strings.Split(strings.TrimSpace(line), " | "); len(fields) == 3 {
			of := vector{storeKey: unquoted(fields[1])}
			all = append(all, lookAlike{fields[0], of.parseValue(fields[2])})
		}
	}
	for _, value := range ownKeys() {
		all = append(all, lookAlike{"limitctl's own", value})
	}
	return all
}

// ownKeys are limitctl's own, of every algorithm, and what it keeps with them.
func ownKeys() (own []Value) {
	for _, algorithm := range store.Algorithms() {
		limit := must(store.Limit{Algorithm: algorithm, Count: 10, Period: time.Minute}.Normalize())
		var s store.State
		s.Charge(limit, 3, corpusNow-1_000_000)
		for _, prefix := range []string{"rl", "rate", "limiter", "rlflx", "ratelimit", "myapp", "LIMITS", "3"} {
			storeKey := admin.OwnLayout(prefix).StoreKey(store.Key{Subject: "203.0.113.9", Name: limit.DefaultName()})
			own = append(own, text(storeKey, string(s.AppendRecord(nil)), time.Minute))
		}
	}
	for _, prefix := range []string{"rl", "rate", "limiter"} {
		own = append(own,
			text(prefix+"!id", "9f86d081884c7d659a2feaa0c55ad015", -1),
			list(prefix+"!{audit}", -1, `{"at":"2026-11-21T12:00:00Z"}`),
			text(prefix+"!{override}", "RO\x01\x00\x00\x00\x01", -1),
			text(prefix+"!{override}:3f2a", "RV\x01\x00\x00\x00\x01", time.Hour),
			text(prefix+"!{user:42}:token:17", "RT\x01\x00\x00\x00\x01", time.Hour),
			text(prefix+"!token:1", "17", time.Hour),
			hash(prefix+"!{denials:29921040}", time.Hour, "\x00\x07user:42login", "3"))
	}
	return own
}

// autoSources are what --layout auto looks by.
func autoSources() (sources Sources) {
	for _, layout := range All() {
		sources = append(sources, Source{Layout: layout})
	}
	return sources
}

func TestNothingIsClaimedThatIsNotALimit(t *testing.T) {
	all := corpus()
	if len(all) < 150 {
		t.Errorf("the corpus has only %d values", len(all))
	}
	for i := range all {
		v := vector{storeKey: all[i].StoreKey, now: corpusNow, values: []Value{all[i].Value}}
		entries, err := v.judge(autoSources(), &admin.Query{Subjects: pattern(t, "*")})
		for j := range entries {
			t.Errorf("%s, %q, is claimed by %s: %+v", all[i].what, v.storeKey, entries[j].Layout, entries[j])
		}
		if all[i].what == "limitctl's own" && err != nil {
			t.Errorf("of limitctl's own key %q it says %v", v.storeKey, err)
		}
	}
}
