package layouts

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The layouts of these tests are made up, so that no adapter has a say in them.

// fake is a layout of strings under a prefix. A value "sure:N" is certain, "N" is possible, and all else is wrong.
// "gone" says nothing.
type fake struct{ name, prefix string }

func (f fake) Info() Info {
	info := Info{Name: f.name, Example: f.prefix + "x"}
	if f.prefix != "" {
		info.Prefixes = []string{f.prefix}
	}
	return info
}

func (f fake) Match(storeKey string, asked bool) (store.Key, bool) {
	subject, ok := strings.CutPrefix(storeKey, f.prefix)
	key := store.Key{Subject: subject, Name: f.name}
	return key, (ok || asked) && subject != ""
}

func (f fake) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	principal := strings.TrimSuffix(storeKey, ":timer")
	return []string{principal, principal + ":timer"}
}

func (f fake) Decode(found *Found) (Reading, error) {
	entry := admin.Entry{Limit: found.Limit, Decision: store.Decision{Used: 1}}
	switch text := string(found.Values[0].Text); {
	case found.Values[0].Type == NoValue || text == "gone":
		return Reading{}, nil
	case strings.HasPrefix(text, "sure:"):
		return Reading{Entries: []admin.Entry{entry}, Certain: strings.HasSuffix(text, f.name)}, nil
	case strings.Trim(text, "0123456789") == "":
		return Reading{Entries: []admin.Entry{entry}}, nil
	}
	return Reading{}, errors.New("a word")
}

func pattern(t testing.TB, text string) store.Pattern {
	t.Helper()
	return must(store.ParsePattern(text))
}

func TestJudge(t *testing.T) {
	red, blue, any := fake{"red", "rate:"}, fake{"blue", "rate:"}, fake{"any", ""}
	tenth, ninth := store.Limit{Count: 10, Period: time.Minute}, store.Limit{Count: 9, Period: time.Minute}
	mapped := func(layout Layout, keys string, limit store.Limit) Source {
		return Source{Layout: layout, Keys: pattern(t, keys), Limit: limit}
	}
	auto := Sources{{Layout: red}, {Layout: blue}, {Layout: any}}
	for _, test := range []struct {
		name          string
		sources       Sources
		subjects      string // "*" if empty
		storeKey      string // "rate:u" if empty
		value         string
		layout        string // of the entry
		limit         store.Limit
		unsure, wrong string // the errors
	}{
		{name: "one is certain", sources: auto, value: "sure:blue", layout: "blue"},
		{name: "none is certain", sources: auto, value: "7", unsure: `key "rate:u" may be of any or blue or red`},
		{name: "nobody's word", sources: auto, value: "hello",
			unsure: `key "rate:u" holds a word, which blue or red does not write`},
		{name: "a word under a key of no form", sources: auto, storeKey: "u", value: "hello"},
		{name: "one layout, all keys, a word", sources: Sources{{Layout: red}}, value: "hello",
			unsure: `key "rate:u" holds a word, which red does not write`},
		{name: "asked by the subject", sources: Sources{{Layout: red}}, subjects: "u", value: "7", layout: "red"},
		{name: "asked under another prefix", sources: Sources{{Layout: red}}, subjects: "my:*", storeKey: "my:u",
			value:  "7",
			layout: "red"},
		{name: "asked, a word", sources: Sources{{Layout: red}}, subjects: "rate:*", value: "hello",
			wrong: `key "rate:u" holds a word, which red does not write; it was left as it is`},
		{name: "the first mapping wins", layout: "red", limit: tenth, value: "7",
			sources: Sources{mapped(blue, "other:*", ninth), mapped(red, "rate:*", tenth), mapped(blue, "*", ninth)}},
		{name: "a mapping is stronger than what is certain",
			sources: append(Sources{mapped(red, "rate:*", tenth)}, auto...),
			value:   "sure:blue", layout: "red", limit: tenth},
		{name: "a mapping gives a named layout its limit", layout: "red", limit: tenth, value: "7", subjects: "rate:*",
			sources: Sources{mapped(red, "rate:u*", tenth), {Layout: red}}},
		{name: "mapped to one, certainly of another",
			sources: append(Sources{mapped(fake{"green", "rate:"}, "rate:*", tenth)}, auto...),
			value:   "sure:green", layout: "green", limit: tenth},
		{name: "a record of ours", sources: Sources{{Layout: red}}, subjects: "rate:*", value: ownRecord()},
		{name: "with limits of ours", sources: Sources{{Layout: any}}, subjects: "my*", storeKey: "my!token:u",
			value: "7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			storeKey := test.storeKey
			if storeKey == "" {
				storeKey = "rate:u"
			}
			query := &admin.Query{Subjects: pattern(t, "*")}
			if test.subjects != "" {
				query.Subjects = pattern(t, test.subjects)
			}
			look := test.sources.Look(storeKey, query)
			if look == nil {
				t.Fatal("no layout has the key")
			}
			look.StoreKeys(1)
			entries, principal, err := look.Judge(func(key string) Value {
				if key == storeKey {
					return text(key, test.value, time.Minute)
				}
				return Value{StoreKey: key, Type: NoValue}
			})
			var unsure *UnsureError
			var foreign *store.ForeignError
			switch {
			case test.unsure != "":
				if !errors.As(err, &unsure) || errors.Is(err, store.ErrForeign) || err.Error() != test.unsure {
					t.Errorf("got error %v, want unsure %s", err, test.unsure)
				}
			case test.wrong != "":
				if !errors.As(err, &foreign) || err.Error() != test.wrong {
					t.Errorf("got error %v, want %s", err, test.wrong)
				}
			case err != nil:
				t.Error(err)
			}
			if test.layout == "" {
				if len(entries) != 0 {
					t.Fatalf("it is claimed: %+v", entries)
				}
				return
			}
			if len(entries) == 0 {
				t.Fatal("nobody has it")
			}
			e := entries[0]
			if e.Layout != test.layout || e.Limit != test.limit || e.StoreKey != storeKey || principal != storeKey ||
				e.TTL != time.Minute ||
				e.Record.Key != e.Key || !slices.Equal(partKeys(&e), []string{storeKey}) {
				t.Errorf("the entry is %+v, called by %s", e, principal)
			}
		})
	}
}

func partKeys(e *admin.Entry) (keys []string) {
	for _, part := range e.Record.Members {
		keys = append(keys, part.StoreKey)
	}
	return keys
}

func ownRecord() string {
	limit := must(store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Minute}.Normalize())
	var s store.State
	s.Charge(limit, 3, 1_795_294_334_000_000)
	return string(s.AppendRecord(nil))
}

func TestGlob(t *testing.T) {
	layout := func(prefixes ...string) Source { return Source{Layout: &prefixed{prefixes: prefixes}} }
	mapping := func(keys string) Source { return Source{Layout: &prefixed{}, Keys: pattern(t, keys)} }
	for _, test := range []struct {
		name    string
		sources Sources
		subject string
		want    string
	}{
		{"one prefix", Sources{layout("rate:")}, "*", "rate:*"},
		{"its subject", Sources{layout("rate:")}, "user*", "[ru][as][et][er]*"},
		{"another prefix that was asked for", Sources{layout("limiter:")}, "my:*", "[lm][iy][:m]*"},
		{"several prefixes", Sources{layout("rate:"), layout("rl:")}, "*", "r[al][:t]*"},
		{"no prefix", Sources{layout("rate:"), layout()}, "*", "*"},
		{"one mapping", Sources{mapping("my:*:v2")}, "x", "my:*:v2"},
		{"a mapping of anything", Sources{mapping("*:v2"), layout("rate:")}, "*", "*"},
	} {
		if got := test.sources.Glob(pattern(t, test.subject)); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

type prefixed struct {
	fake
	prefixes []string
}

func (p *prefixed) Info() Info { return Info{Name: "prefixed", Prefixes: p.prefixes} }

// Every limit is found by its own subject and its own name, also where only the value tells them.
func TestLimitsAreSelectedByTheirOwnKey(t *testing.T) {
	all := vectors()
	all["upstash"] = append(all["upstash"],
		vector{name: "a bucket of a number", storeKey: "@upstash/ratelimit:user:48213", now: somewhen,
			values: []Value{hash("@upstash/ratelimit:user:48213", time.Minute, "refilledAt", "1700000000000", "tokens",
				"3")}})
	for name, vectors := range all {
		layout := must(Named(name))
		for _, v := range vectors {
			sources := Sources{{Layout: layout, Keys: pattern(t, "*"), Limit: v.limit}}
			judge := func(q admin.Query) []admin.Entry {
				entries, _ := v.judge(sources, &q)
				return entries
			}
			for _, e := range judge(admin.Query{}) {
				subject, err := store.ExactStoreKeyPattern(e.Key.Subject)
				if err != nil {
					continue // nobody is limited by it
				}
				entryName := must(store.ExactStoreKeyPattern(e.Key.Name))
				has := func(other admin.Entry) bool { return other.Key == e.Key }
				if !slices.ContainsFunc(judge(admin.Query{Subjects: subject, Names: entryName}), has) {
					t.Errorf("%s/%s: %+v is not found by its subject and name", name, v.name, e.Key)
				}
				entryName, _ = store.ExactStoreKeyPattern(e.Key.Name + "-other")
				if found := judge(admin.Query{Names: entryName}); len(found) > 0 {
					t.Errorf("%s/%s: another name selects %+v", name, v.name, found[0].Key)
				}
			}
		}
	}
}

// A mapping is of many keys, and a stranger among them is told and left, without an error.
func TestStrangersUnderAMapping(t *testing.T) {
	perMinute := store.Limit{Count: 10, Period: time.Minute}
	for _, test := range []struct {
		layout, name string
		value        Value
		subjects     string // of the operator; "*" if empty
		limit        store.Limit
		want         string // of the error; empty if the key is the layout's
	}{
		{layout: "rate-limit-redis", name: "a count", value: text("rl:user:42", "4", 9*time.Second)},
		{layout: "rate-limit-redis", name: "an expiry in milliseconds",
			value: text("rl:user:42", "4", 60_000*time.Second)},
		{layout: "rate-limit-redis", name: "a version", value: text("rl:version", "7", -1),
			want: "may be of rate-limit-redis: no expiry"},
		{layout: "rate-limit-redis", name: "taken back", value: text("rl:203.0.113.9", "-1", -1)},
		{layout: "rate-limit-redis", name: "kept for a day", value: text("rl:build", "4", 20*time.Hour),
			want: "may be of rate-limit-redis"},
		{layout: "rate-limit-redis", name: "kept for a day, limit unknown", value: text("rl:build", "4", 20*time.Hour),
			limit: store.Limit{Count: 1}},
		{layout: "rate-limit-redis", name: "a hash", value: hash("rl:config", -1, "a", "b"),
			want: `key "rl:config" holds a hash, not a string, which rate-limit-redis does not write`},
		{layout: "ulule", name: "stuck", value: text("rl:user:42", "5000", -1)},
		{layout: "redis_rate", name: "a bucket that takes its time", limit: store.Limit{
			Count: 1, Period: time.Minute, Burst: 600},
			value: text("rl:rate:a", "312261520.5", 9*time.Hour)},
	} {
		t.Run(test.layout+"/"+test.name, func(t *testing.T) {
			layout := must(Named(test.layout))
			if test.limit == (store.Limit{}) {
				test.limit = perMinute
			}
			if test.subjects == "" {
				test.subjects = "*"
			}
			v := vector{storeKey: test.value.StoreKey, now: 1_795_294_335_000_000, values: []Value{test.value}}
			sources := Sources{{Layout: layout, Keys: pattern(t, "rl:*"), Limit: test.limit},
				{Layout: layout, Limit: test.limit}}
			entries, err := v.judge(sources, &admin.Query{Subjects: pattern(t, test.subjects)})
			if errors.Is(err, store.ErrForeign) || (len(entries) == 1) != (test.want == "") {
				t.Fatalf("it is %+v, %v", entries, err)
			}
			if unsure := (*UnsureError)(nil); test.want != "" &&
				(!errors.As(err, &unsure) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

func exactly(t testing.TB, storeKey string) store.Pattern {
	t.Helper()
	return must(store.ExactStoreKeyPattern(storeKey))
}

// What no layout can have read is not fit.
func TestRecordsThatDoNotFit(t *testing.T) {
	record := func(subject, name string, storeKeys ...string) admin.Record {
		r := admin.Record{Key: store.Key{Subject: subject, Name: name}}
		for _, storeKey := range storeKeys {
			r.Members = append(r.Members, admin.Member{StoreKey: storeKey, Type: "string"})
		}
		return r
	}
	kong := named("kong").Info().Example
	for _, test := range []struct {
		record   admin.Record
		selected string
		want     string // empty if it fits
	}{
		{record("login:42", "redis_rate", "rate:login:42"), "*", ""},
		{record("session:alice", "redis_rate", "session:alice"), "*", `key "session:alice" cannot be of redis_rate`},
		{record("login:42", "redis_rate", "rate:admin"), "*",
			`key "rate:admin" is not of limit redis_rate of "login:42"`},
		{record("login:42", "redis_rate", "rate:login:42", "rate:b"), "*",
			`keys "rate:login:42" and "rate:b" are not of one limit`},
		{record("login:42", "redis_rate", "my:rate:login:42"), "my:*", ""},
		{record("login:42", "redis_rate", "yours:rate:login:42"), "my:*",
			`key "yours:rate:login:42" was not selected by my:*`},
		{record("a", "upstash@2", "a:2"), "a:*", ""}, // the number is a window's, as its value tells
		{record("alice", "counter", "session:alice"), "alice", `is not of limit counter of "alice"`},
		{record("203.0.113.9", "kong/minute", kong), "*", ""},
		{record("203.0.113.9", "kong/hour", kong), "*", `is not of limit kong/hour`},
		{record("my:rl:a", "counter", "my:rl:a"), "my:rl:*", ""},
		{record("session:alice", "counter", "session:alice"), "my:rl:*",
			`key "session:alice" was not selected by my:rl:*`},
		{record("session:alice", "time-set", "session:alice"), "my:rl:*", `was not selected`},
		{record("my:rl:a", "counter", "my:rl:a", "session:alice"), "my:rl:*", `are not of one limit`},
	} {
		err := CheckRecord(&test.record, pattern(t, test.selected))
		switch {
		case (err == nil) != (test.want == ""):
			t.Errorf("%+v by %s: %v, want %q", test.record, test.selected, err, test.want)
		case err != nil && !strings.Contains(err.Error(), test.want):
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
