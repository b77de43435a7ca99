package layouts

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// limitador is the service of Kuadrant: a counter whose window begins with its first request.
// The key of a limit with an id is binary, that of others a text with JSON. With each limit comes
// a set of the keys of its counters.
type limitador struct{ single }

const (
	// limitadorText begins the store keys of limits without an id, and limitadorID those of
	// limits with one.
	limitadorText, limitadorID = "namespace:{", "\x02"
	limitadorCounter           = "},counter:"
	limitadorSet               = "},counters_of_limit:"
	// limitadorLongest is how long a store key is at most that is looked at.
	limitadorLongest = 8192
	// limitadorMany is from how many counters on the set of a limit is worth a word: then most
	// of them have long expired.
	limitadorMany = 1000
)

// limitadorKey is a parsed store key.
type limitadorKey struct {
	namespace, id string
	period        time.Duration // 0 if the key does not tell it
	variables     [][2]string
	isSet         bool // or can be, with an id
}

// Info implements [Layout].
func (limitador) Info() Info {
	return Info{
		Name: "limitador", Called: "a Limitador counter",
		Writer: "Kuadrant Limitador",
		Example: `namespace:{api},counter:{"limit":{"namespace":"api","seconds":60,"conditions":[],"variables":["user"]},` +
			`"set_variables":{"user":"alice"}}`,
		Type: "string", Prefixes: []string{limitadorText, limitadorID}, Needs: "the count, and the period of limits with an id",
		Beyond: "With redis_cached each replica has a count of its own, and adds it to Redis about once a second.",
		Source: "github.com/Kuadrant/limitador 2981b2bd",
	}
}

// Match implements [Layout].
func (limitador) Match(storeKey string, _ bool) (store.Key, bool) {
	k, ok := parseLimitador(storeKey)
	return k.key(), ok
}

// key names the counter: whose it is by its variables, or the namespace if it has none.
func (k *limitadorKey) key() store.Key {
	what := k.id
	if k.id == "" {
		what = k.namespace + "/" + store.FormatPeriod(k.period)
	}
	var values []string
	for _, variable := range k.variables {
		values = append(values, variable[0]+"="+variable[1])
	}
	subject := strings.Join(values, ",")
	if subject == "" {
		subject = k.namespace + k.id
	}
	return store.Key{Subject: subject, Name: "limitador/" + what}
}

func parseLimitador(storeKey string) (k limitadorKey, ok bool) {
	if len(storeKey) > limitadorLongest {
		return k, false
	}
	if rest, is := strings.CutPrefix(storeKey, limitadorID); is {
		return parseLimitadorID([]byte(rest))
	}
	rest, is := strings.CutPrefix(storeKey, limitadorText)
	if !is {
		return k, false
	}
	namespace, counter, is := strings.Cut(rest, limitadorCounter)
	if !is {
		namespace, counter, k.isSet = strings.Cut(rest, limitadorSet)
		if !k.isSet {
			return k, false
		}
	}
	var document struct {
		Limit     json.RawMessage   `json:"limit"`
		Variables map[string]string `json:"set_variables"`
	}
	if k.isSet {
		document.Limit = []byte(counter)
	} else if json.Unmarshal([]byte(counter), &document) != nil || document.Variables == nil {
		return k, false
	}
	var limit struct {
		Namespace  string   `json:"namespace"`
		Seconds    int64    `json:"seconds"`
		Conditions []string `json:"conditions"`
		Variables  []string `json:"variables"`
	}
	if json.Unmarshal(document.Limit, &limit) != nil || limit.Namespace != namespace || limit.Seconds < 1 ||
		limit.Seconds > int64(store.MaxPeriod/time.Second) {
		return k, false
	}
	k.namespace, k.period = namespace, time.Duration(limit.Seconds)*time.Second
	for name, value := range document.Variables {
		k.variables = append(k.variables, [2]string{name, value})
	}
	slices.SortFunc(k.variables, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return k, true
}

// parseLimitadorID reads what is behind the first byte of a key of a limit with an id, in the
// format postcard: the id, how many variables, and the name and value of each. The set of the
// limit has the id alone.
func parseLimitadorID(key []byte) (k limitadorKey, ok bool) {
	r := binaryReader{rest: key}
	text := func() string {
		text := r.next(r.length())
		r.failed = r.failed || !utf8.Valid(text)
		return string(text)
	}
	if k.id = text(); k.id == "" || r.failed {
		return k, false
	}
	if k.isSet = r.atEnd(); k.isSet {
		return k, true
	}
	for n := r.length(); n > 0 && !r.failed; n-- {
		name := text()
		k.variables = append(k.variables, [2]string{name, text()})
	}
	return k, r.atEnd()
}

// Decode implements [Layout].
func (limitador) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	k, ok := parseLimitador(found.StoreKey)
	switch {
	case !ok:
		return Reading{}, nil
	case k.isSet:
		return k.readSet(found, value)
	}
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	entry := countEntry(k.limitOf(found.Limit), count, value.TTL)
	return lifetime{longest: entry.Limit.Period}.reading(found, entry, true)
}

// readSet is the reading of the set of a limit's counters. It limits nobody.
func (k *limitadorKey) readSet(found *Found, value *Value) (Reading, error) {
	if value.Type != SetValue {
		return Reading{}, notA(value.Type, SetValue)
	}
	if value.Length < limitadorMany {
		return Reading{Certain: true}, nil
	}
	entry := admin.Entry{UsedUnknown: true, Key: found.Key}
	entry.Key.Name += "/counters"
	// Limitador adds a counter to the set again when its next window begins.
	entry.Defects = []admin.Defect{grows(true, "Kuadrant/limitador: the set counters_of_limit keeps expired counters")}
	return Reading{Entries: []admin.Entry{entry}, Certain: true}, nil
}

// limitOf returns what is known of the limit. A limit that an operator gives counts for limits of its
// period, or of all if it has none.
func (k *limitadorKey) limitOf(said store.Limit) store.Limit {
	if k.period == 0 {
		return fromFirst(said)
	}
	return counted(store.Limit{Algorithm: store.FixedWindow, Period: k.period, FromFirst: true}, said)
}

// SetRemaining implements [Setter].
func (limitador) SetRemaining(found *Found, remaining int64) ([]Write, error) {
	k, ok := parseLimitador(found.StoreKey)
	if !ok || k.isSet {
		return nil, store.Invalidf("key %q holds no count", found.StoreKey)
	}
	limit := k.limitOf(found.Limit)
	return setCounter(&found.Values[0], limit, remaining, limit.Period)
}
