package layouts

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// vector is what a limiter is known to write, and what it would answer itself at an instant.
type vector struct {
	name     string
	storeKey string // the one that a scan comes across
	values   []Value
	now      store.Instant
	limit    store.Limit // what an operator says
	key      string      // what Match says
	says     string      // what Decode says
}

// somewhen is 2026-11-21T20:52:11.45Z.
const somewhen = store.Instant(1_795_294_331_450_000)

const (
	kongRoute   = "0c9f2d2e-6f0b-4e4a-9a62-2f6b0a1c8d11"
	kongService = "5b7a3e1c-9a55-4f0e-8d42-1b2c3d4e5f60"
)

// vectors are those of all layouts, by name, as testdata/samples.txt has them.
func vectors() map[string][]vector {
	words := strings.NewReplacer("NOBODY", kongNobody, "ROUTE", kongRoute, "SERVICE", kongService,
		"SHA1", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "TRACKER", strings.Repeat("9f8a7b6c", 8), "\n    ", " ")
	all, layout := map[string][]vector{}, ""
	var v vector
	for line := range strings.Lines(words.Replace(string(must(os.ReadFile("testdata/samples.txt"))))) {
		line = strings.TrimSuffix(line, "\n")
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "", "#":
		case "layout":
			layout, v = rest, vector{}
		case "key":
			v.storeKey, v.key, _ = strings.Cut(unquoted(rest), " = ")
		case "now":
			v.now = store.Instant(must(strconv.ParseInt(rest, 10, 64)))
		default:
			fields := strings.Split(line, " | ")
			v.name, v.says, v.limit, v.values = fields[0], fields[3], store.Limit{}, nil
			switch fields[1] {
			case "":
			case "AGES": // no text says so much
				v.limit = store.Limit{Count: 1, Period: store.MaxPeriod, Burst: store.MaxCount}
			default:
				v.limit = must(ParseLimit(fields[1]))
			}
			for value := range strings.SplitSeq(fields[2], "; ") {
				if value != "" {
					v.values = append(v.values, v.parseValue(value))
				}
			}
			all[layout] = append(all[layout], v)
		}
	}
	return all
}

// judge is what a store says of a vector's key by sources.
func (v *vector) judge(sources Sources, query *admin.Query) ([]admin.Entry, error) {
	look := sources.Look(v.storeKey, query)
	if look == nil {
		return nil, nil
	}
	look.StoreKeys(v.now)
	entries, _, err := look.Judge(v.value)
	return entries, err
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func named(layout string) Layout { return must(Named(layout)) }

func unquoted(text string) string { return must(strconv.Unquote(`"` + text + `"`)) }

func unhex(text string) []byte { return must(hex.DecodeString(text)) }

// binaries are the values of cases that are not text.
var binaries = map[string]string{
	"THREE": string(unhex(bucket4jThree)), "HALF": string(unhex(bucket4jThree)[:100]),
	"THREE-AND-MORE": string(append(unhex(bucket4jThree), 0)),
	"NEGATIVE":       bucket4jWith(int64(somewhen)*1000, -4, 0, int64(somewhen)*1000, -150, 0),
	// What Python 3.11 pickles of [1795294535.25, 1795294534.5], in protocol 5 and 2, and of [1795294535.25].
	"TWO":     string(unhex("80059517000000000000005d94284741dac08151d000004741dac08151a00000652e")),
	"TWO-OLD": string(unhex("80025d7100284741dac08151d000004741dac08151a00000652e")),
	"ONE":     string(unhex("8005950d000000000000005d944741dac08151d00000612e")),
}

func (v *vector) parseValue(text string) Value {
	value := Value{StoreKey: v.storeKey, Type: StringValue, TTL: -1, Length: 1}
	if rest, elsewhere := strings.CutPrefix(text, "under "); elsewhere {
		storeKey, rest, _ := strings.Cut(rest, " ")
		value.StoreKey, text = strings.ReplaceAll(storeKey, "^", v.storeKey), rest
	}
	kind, rest, _ := strings.Cut(text, " ")
	if slices.Contains([]ValueType{HashValue, ListValue, SetValue, SortedSetValue}, ValueType(kind)) {
		value.Type, text = ValueType(kind), rest
	}
	ttl, content, _ := strings.Cut(text, " ")
	if ttl != "-" {
		value.TTL = must(time.ParseDuration(ttl))
	}
	members := strings.Fields(content)
	switch value.Type {
	case StringValue:
		value.Text = []byte(cmp.Or(binaries[content], unquoted(content)))
		value.Length = int64(len(value.Text))
	case HashValue:
		return hash(value.StoreKey, value.TTL, members...)
	case ListValue:
		return list(value.StoreKey, value.TTL, members...)
	case SortedSetValue:
		if content == "MANY" {
			members = slices.Repeat([]string{"1795294321.5"}, MostMembers)
			value.Length++
		}
		for _, score := range members {
			value.Members = append(value.Members, Member{Name: "x", Score: must(strconv.ParseFloat(score, 64))})
		}
		value.Length += int64(len(members)) - 1
	}
	return value
}

// text is a string value.
func text(storeKey, text string, ttl time.Duration) Value {
	return Value{StoreKey: storeKey, Type: StringValue, Text: []byte(text), Length: int64(len(text)), TTL: ttl}
}

// hash is a hash, of fields and their texts in turns.
func hash(storeKey string, ttl time.Duration, fields ...string) Value {
	value := Value{StoreKey: storeKey, Type: HashValue, TTL: ttl, Length: int64(len(fields) / 2)}
	for i := 0; i < len(fields); i += 2 {
		value.Members = append(value.Members, Member{Name: fields[i], Text: fields[i+1]})
	}
	return value
}

// list is a list, of its members from the beginning.
func list(storeKey string, ttl time.Duration, members ...string) Value {
	value := Value{StoreKey: storeKey, Type: ListValue, TTL: ttl, Length: int64(len(members))}
	for _, member := range members {
		value.Members = append(value.Members, Member{Name: member})
	}
	return value
}

func TestVectors(t *testing.T) {
	all := vectors()
	for _, layout := range All() {
		name := layout.Info().Name
		if len(all[name]) == 0 {
			t.Errorf("%s has no vectors", name)
		}
		for _, v := range all[name] {
			t.Run(name+"/"+v.name, func(t *testing.T) {
				key, ok := layout.Match(v.storeKey, true)
				whole := func(text string) string { return strings.ReplaceAll(text, "^", v.storeKey) }
				if is := key.Name + " of " + key.Subject; !ok || is != whole(v.key) {
					t.Fatalf("it matches %s, %v, want %s", is, ok, v.key)
				}
				if got := says(decode(layout, v.found(layout))); got != whole(v.says) {
					t.Errorf("it says\n%s\nwant\n%s", got, whole(v.says))
				}
			})
		}
	}
}

// says is a reading as a line of a table has it.
func says(reading Reading, err error) string {
	if err != nil {
		return "wrong: " + err.Error()
	}
	text := "nothing"
	for i := range reading.Entries {
		text = strings.TrimPrefix(text+" + "+entrySays(reading.Entries[i]), "nothing + ")
	}
	if reading.Certain {
		text = "sure: " + text
	}
	return text
}

// entrySays says all of an entry that is not zero.
func entrySays(e admin.Entry) string {
	var b strings.Builder
	say := func(is bool, format string, args ...any) {
		if is {
			fmt.Fprintf(&b, format+" ", args...)
		}
	}
	say(e.Key != store.Key{}, "%s of %s", e.Key.Name, e.Key.Subject)
	say(e.Limit != store.Limit{}, "%s:%d/%s", e.Limit.Algorithm, e.Limit.Count, store.FormatPeriod(e.Limit.Period))
	say(e.Limit.Burst != e.Limit.Count, "burst %d", e.Limit.Burst)
	say(e.Limit.FromFirst, "first")
	say(e.Allowed, "allowed")
	say(e.UsedUnknown, "unknown")
	say(e.Used != 0 || e.Remaining != 0, "used %d left %d", e.Used, e.Remaining)
	say(e.ResetTold || e.ResetAfter != 0, "reset %s%s", e.ResetAfter, map[bool]string{true: "!"}[e.ResetTold])
	say(e.RetryTold || e.RetryAfter != 0, "retry %s%s", e.RetryAfter, map[bool]string{true: "!"}[e.RetryTold])
	say(e.Delay != 0, "delay %s", e.Delay)
	for _, member := range e.Record.Members {
		say(true, "%s %s", member.Type, member.StoreKey)
	}
	for _, defect := range e.Defects {
		say(true, "%s%s: %s", defect.Kind, map[bool]string{true: "!"}[defect.Stuck], defect.Text)
	}
	e.Key, e.Limit, e.Decision, e.Defects, e.Record.Members = store.Key{}, store.Limit{}, store.Decision{}, nil, nil
	e.UsedUnknown, e.ResetTold, e.RetryTold = false, false, false
	say(fmt.Sprintf("%+v", e) != fmt.Sprintf("%+v", admin.Entry{}), "and %+v", e)
	return strings.TrimSuffix(b.String(), " ")
}

// found is what a store would give to the layout's Decode.
func (v *vector) found(layout Layout) *Found {
	key, _ := layout.Match(v.storeKey, true)
	found := &Found{StoreKey: v.storeKey, Key: key, Now: v.now, Limit: v.limit}
	for _, storeKey := range layout.Together(v.storeKey, v.limit, v.now) {
		found.Values = append(found.Values, v.value(storeKey))
	}
	return found
}

// value is what the vector has under a store key.
func (v *vector) value(storeKey string) Value {
	for i := range v.values {
		if v.values[i].StoreKey == storeKey {
			return v.values[i]
		}
	}
	return Value{StoreKey: storeKey, Type: NoValue, TTL: -2} // as PTTL says it
}

// Over the vectors of all layouts no key is claimed by another layout than its own, and by its own if that is certain.
func TestNoLimitIsClaimedTwice(t *testing.T) {
	sources, everything := autoSources(), &admin.Query{Subjects: pattern(t, "*")}
	for name, vectors := range vectors() {
		layout := must(Named(name))
		for i := range vectors {
			v := &vectors[i]
			t.Run(name+"/"+v.name, func(t *testing.T) {
				entries, err := v.judge(sources, everything)
				claims := ""
				if len(entries) > 0 {
					claims = entries[0].Layout
				}
				wants := ""
				if v.isCertain(layout) {
					wants = name
				}
				if claims != wants {
					t.Errorf("it is claimed by %q, want %q; the error is %v", claims, wants, err)
				}
				if errors.Is(err, store.ErrForeign) {
					t.Errorf("nobody asked, and the error is %v", err)
				}
			})
		}
	}
}

// isCertain reports whether a layout is certain of a vector when nobody says anything.
func (v *vector) isCertain(layout Layout) bool {
	key, isUsual := layout.Match(v.storeKey, false)
	unsaid := *v
	unsaid.limit = store.Limit{}
	found := unsaid.found(layout)
	found.Key = key
	reading, err := decode(layout, found)
	return isUsual && err == nil && reading.Certain && len(reading.Entries) > 0
}
