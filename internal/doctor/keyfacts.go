package doctor

import (
	"cmp"
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// examples is the number of keys that are named as examples.
const examples = 3

// keyFacts are the results of reading the keys. Their size does not grow with the number of keys.
type keyFacts struct {
	prefix           string
	layout           admin.OwnLayout
	looked, total    int64 // keys of the store, of limitctl or not
	counted          bool  // total is known
	complete         bool
	limits, bytes    int64
	noSize           error // why bytes is unknown
	noTTL, foreign   sample
	foreignKey       string // the first of them
	damaged          sample // records of limitctl that cannot be read
	perPolicy        map[string]int64
	biggest, hottest ranking
	byFrequency      bool  // keys are ranked by how often they are used, else by how long they are idle
	noHeat           error // why the ranking is unknown
}

// sample counts keys, and keeps the first few.
type sample struct {
	count    int64
	examples []string
}

func (s *sample) add(text string) {
	if s.count++; len(s.examples) < examples {
		s.examples = append(s.examples, text)
	}
}

// ranked is a key and the figure by which it is ranked.
type ranked struct {
	storeKey string
	value    int64 // bytes, a frequency, or seconds of idleness, negated
	share    float64
}

// ranking keeps the few greatest.
type ranking []ranked

func (r *ranking) add(k ranked) {
	greater := func(a, b ranked) int { return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(b.share, a.share)) }
	at, _ := slices.BinarySearchFunc(*r, k, greater)
	if at >= examples {
		return
	}
	*r = slices.Insert(*r, at, k)
	if len(*r) > examples {
		*r = (*r)[:examples]
	}
}

// heatQuestion returns the subcommand of OBJECT: a server counts uses only under an LFU policy, and idle time only
// under another.
func (f *keyFacts) heatQuestion() string {
	if f.byFrequency {
		return "freq"
	}
	return "idletime"
}

// classify counts a key as a limit, by its policy, or as foreign. err is the error of reading it. share is the used
// part of the limit, as far as the value shows it.
func (f *keyFacts) classify(held *admin.Held, err error, now store.Instant) (share float64, ours bool) {
	key, matched := f.layout.Match(held.StoreKey)
	if !matched {
		f.addForeign(held.StoreKey, "not the key of a limit")
		return 0, false
	}
	if err != nil {
		f.addForeign(held.StoreKey, "not a string")
		return 0, false
	}
	entry, err := f.layout.Entry(&admin.Query{}, key, held, now)
	if err != nil {
		if wrong := (&store.ForeignError{Holds: err.Error()}); !wrong.IsDamaged() {
			f.addForeign(held.StoreKey, wrong.Holds)
			return 0, false
		}
		f.damaged.add(held.StoreKey)
		if held.TTL < 0 {
			f.noTTL.add(held.StoreKey)
		}
		return 0, false
	}
	f.perPolicy[groupOf(&entry)]++
	share, _ = entry.Share()
	return share, true
}

// addForeign counts a key that limitctl did not write.
func (f *keyFacts) addForeign(storeKey, holds string) {
	f.foreignKey = cmp.Or(f.foreignKey, storeKey)
	f.foreign.add(storeKey + " (" + holds + ")")
}

// groupOf returns the name under which limits are counted: "api/user" for a policy, else the algorithm and the
// period.
func groupOf(e *admin.Entry) string {
	if parts, ok := policy.ParseKey(e.Key); ok {
		return parts.LimitName()
	}
	if !e.LimitKnown() {
		return e.LimitText()
	}
	if e.Limit.Calendar != nil { // a record has the end of its window, which is not the same for all keys
		return e.Key.Name
	}
	return e.Limit.DefaultName()
}
