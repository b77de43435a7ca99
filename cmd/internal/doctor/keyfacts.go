package doctor

import (
	"cmp"
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// examples is how many keys are named as examples.
const examples = 3

// keyFacts is what a look at the keys found, in a size that does not grow with
// their number.
type keyFacts struct {
	prefix         string
	layout         admin.OwnLayout
	looked, total  int64 // keys of the store, be they ours or not
	counted        bool  // whether total could be had
	complete       bool
	limits, bytes  int64
	noSize         error // why bytes could not be had
	noTTL, foreign sample
	damaged        sample // records of limitctl's own that cannot be read
	// describe, if set, says what the value of a foreign key looks like, and others is how many of
	// the examples look like other limiters'.
	describe         func(storeKey string) string
	others           int
	perPolicy        map[string]int64
	biggest, hottest ranking
	byFrequency      bool  // that is how hot a key is, and else how idle
	noHeat           error // why that could not be had
}

// sample counts, and has the first few.
type sample struct {
	count    int64
	examples []string
}

func (s *sample) add(text string) {
	if s.count++; len(s.examples) < examples {
		s.examples = append(s.examples, text)
	}
}

// ranked is a key and what ranks it.
type ranked struct {
	storeKey string
	value    int64 // bytes, a frequency, or seconds of idleness, negated
	share    float64
}

// ranking has the few greatest.
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

// heatQuestion is what OBJECT is asked: a server counts uses under an LFU policy
// only, and idleness under any other.
func (f *keyFacts) heatQuestion() string {
	if f.byFrequency {
		return "freq"
	}
	return "idletime"
}

// classify counts a key as a limit, of its policy, or as foreign. err is the answer to
// reading it. share is how much of the limit is used, as far as the value tells.
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

// addForeign counts a foreign key, of which something is wrong. Of an example it is told what it
// looks like, if that is another limiter's.
func (f *keyFacts) addForeign(storeKey, wrong string) {
	if f.describe != nil && len(f.foreign.examples) < examples {
		if is := f.describe(storeKey); is != "" {
			wrong = "looks like " + is
			f.others++
		}
	}
	f.foreign.add(storeKey + " (" + wrong + ")")
}

// groupOf names what limits are counted under: "api/user" of a policy, or the
// algorithm and period of one without.
func groupOf(e *admin.Entry) string {
	if parts, ok := policy.ParseKey(e.Key); ok {
		return parts.Policy + "/" + parts.Limit
	}
	if !e.LimitKnown() {
		return e.LimitText()
	}
	return e.Limit.DefaultName()
}
