package operation

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Remaining says how many units a reset leaves of each limit, instead of deleting its key.
type Remaining struct {
	Units int64
	// AtLeast: a key that has more is left as it is.
	AtLeast bool
	// Configured, if set, returns the limit that the configuration has for a key. Where it
	// has none, the limit counts by which the key was charged last.
	Configured func(store.Key) (store.Limit, bool)
	// overrides are those in force when the reset began; nil for none.
	overrides *store.OverrideList
}

// Effect is what an adjustment does to keys, each of which it gives units, takes units from,
// or leaves as it is.
type Effect struct{ Gain, Lose, Stay int64 }

// count counts a key with so many units in use before and after.
func (e *Effect) count(before, after int64) {
	switch {
	case after < before:
		e.Gain++
	case after > before:
		e.Lose++
	default:
		e.Stay++
	}
}

// changed is how many keys become different.
func (e *Effect) changed() int64 { return e.Gain + e.Lose }

// Future is the effect in words before it is there, such as "2 gain units, 1 stays as it is".
func (e *Effect) Future() string {
	return e.text(words{"gains units", "gain units"}, words{"loses units", "lose units"}, words{"stays as it is", "stay as they are"})
}

// Past is the effect in words when it is there, such as "2 gained units, 1 stayed as it was".
func (e *Effect) Past() string {
	return e.text(words{"gained units", "gained units"}, words{"lost units", "lost units"},
		words{"stayed as it was", "stayed as they were"})
}

// words say of one key and of several what becomes of them.
type words struct{ one, several string }

func (e *Effect) text(gain, lose, stay words) string {
	var parts []string
	for _, part := range []struct {
		keys int64
		words
	}{{e.Gain, gain}, {e.Lose, lose}, {e.Stay, stay}} {
		switch part.keys {
		case 0:
		case 1:
			parts = append(parts, "1 "+part.one)
		default:
			parts = append(parts, output.Thousands(part.keys)+" "+part.several)
		}
	}
	return strings.Join(parts, ", ")
}

// adjustment is what is to be done to a key whose record has a limit.
func (r *Remaining) adjustment(key store.Key, recorded store.Limit) admin.Adjustment {
	limit := r.limitOf(key, recorded)
	return admin.Adjustment{Key: key, Limit: limit, Used: limit.Capacity() - r.Units, OnlyLess: r.AtLeast}
}

// limitOf is the limit that applies now to a key whose record has another one, perhaps.
func (r *Remaining) limitOf(key store.Key, recorded store.Limit) store.Limit {
	limit, known := recorded, false
	if r.Configured != nil {
		if configured, has := r.Configured(key); has {
			limit, known = configured, true
		}
	}
	if r.overrides == nil {
		return limit
	}
	o := r.overrides.For(key)
	if o != nil && !known && o.Effect != store.OverrideLimit { // the record may have what the override made of the limit already
		return limit
	}
	return overridden(limit, o)
}

// overridden is what an override makes of a limit; nil leaves it unchanged, and so does one that does not fit it.
func overridden(limit store.Limit, o *store.Override) store.Limit {
	if o == nil {
		return limit
	}
	if applied, err := o.Apply(limit).Normalize(); err == nil {
		return applied
	}
	return limit
}

// check returns why the units cannot be left of the limit of an entry.
func (r *Remaining) check(e *admin.Entry) error {
	limit := r.limitOf(e.Key, e.Limit)
	switch capacity := limit.Capacity(); {
	case limit.Algorithm == 0 || limit.Count <= 0 || limit.Period <= 0:
		return store.Invalidf("%d remaining cannot be set for key %q, whose limit is not known (%s); select fewer keys, or "+
			"reset it whole", r.Units, e.StoreKey, e.LimitText())
	case r.Units > capacity:
		return store.Invalidf("%d remaining is more than limit %s of key %q holds; give at most %d, or select fewer keys",
			r.Units, limit, e.StoreKey, capacity)
	}
	return nil
}

// question is what to ask before so many keys are adjusted.
func (r *Remaining) question(keys int, effect *Effect) string {
	least := ""
	if r.AtLeast {
		least = "at least "
	}
	question := fmt.Sprintf("Leave %s%d remaining of %s", least, r.Units, output.Plural(keys, "key"))
	if text := effect.Future(); text != "" {
		question += " (" + text + ")"
	}
	return question
}
