package override

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/internal/overridetable"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// beside is what is in force already when an override is set.
type beside struct {
	same *store.Override // the override itself, which then gets a new end; nil if it is not in force
	// first are others that apply on keys that both are for, and after those on whose place it takes.
	first, after []store.Override
}

// besideOf compares an override that is to be set with those in force.
func besideOf(o *store.Override, inForce []store.Override, policies []*policy.Policy) *beside {
	b := &beside{}
	identity := overridetable.Identity(o)
	all := []store.Override{*o}
	all[0].ID = ""
	for i := range inForce {
		if overridetable.Identity(&inForce[i]) == identity {
			b.same = &inForce[i]
			continue
		}
		all = append(all, inForce[i])
	}
	passed := false
	for _, other := range store.NewOverrideList(all).All() { // the one that applies first
		switch {
		case other.ID == "":
			passed = true
		case !meet(o, &other) || !meetIn(policies, o, &other):
		case passed:
			b.after = append(b.after, other)
		default:
			b.first = append(b.first, other)
		}
	}
	return b
}

// others returns the IDs, for JSON.
func (b *beside) others() *others {
	o := &others{}
	for i := range b.first {
		o.losesTo = append(o.losesTo, b.first[i].ID)
	}
	for i := range b.after {
		o.over = append(o.over, b.after[i].ID)
	}
	return o
}

// say prints which override applies where the set one meets others. What a preview has said of them is left out.
func (b *beside) say(say func(format string, args ...any), now time.Time, said *operation.Concerned) {
	isSaid := func(o store.Override) bool {
		return said != nil && slices.ContainsFunc(said.Winning, func(w operation.WinningOverride) bool { return w.Override.ID == o.ID })
	}
	sayEach(say, "where both match, %s applies, and not this one", slices.DeleteFunc(slices.Clone(b.first), isSaid), now)
	sayEach(say, "where both match, this one applies, and not %s", b.after, now)
}

func sayEach(say func(format string, args ...any), format string, overrides []store.Override, now time.Time) {
	for i := range overrides {
		if i == mostOthers {
			say("… and so on for %d more (limitctl override list)", len(overrides)-mostOthers)
			return
		}
		say(format, sentence(&overrides[i], now))
	}
}
