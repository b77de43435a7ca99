package dash

import (
	"maps"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// overrides are the overrides that are in force.
type overrides struct {
	reader   *source.OverrideReader // nil if the store keeps none
	fetching bool
	looked   bool                // the first look is over
	list     *store.OverrideList // nil if there are none, or they are not known
	problem  error
}

// overridesDue: the overrides are to be looked at again.
type overridesDue struct{}

// overridesEvery is the least time between two looks. A service looks as often.
const overridesEvery = time.Second

// take takes in what a look brought, and reports whether the overrides are others than before.
func (o *overrides) take(look source.OverridesLook) (changed bool) {
	o.fetching, o.looked, o.problem = false, true, look.Err
	if look.Err != nil {
		return false
	}
	changed = o.list != look.List
	o.list = look.List
	return changed
}

// blockSign marks what is under a block.
const blockSign = "⊘"

// overrideSign marks rows under an override.
func overrideSign(o *store.Override) string {
	switch {
	case source.IsBlock(o):
		return blockSign
	case o.Effect == store.OverrideExempt:
		return "∞"
	}
	return "±"
}

// until says when something ends, by the clock where that is less than a day away.
func until(end, now time.Time) string {
	end = end.In(now.Location())
	if end.Sub(now) < 20*time.Hour {
		return end.Format("15:04")
	}
	return end.Format("Jan 2 15:04")
}

// overrideTexts say what an override does, and until when.
func overrideTexts(o *store.Override, now time.Time) (effect, end string) {
	return allowance.Effect(o), " until " + until(o.ExpiresAt, now)
}

// overrideText is everything about an override, in lines.
func overrideText(o *store.Override, now time.Time) []string {
	words := allowance.Effect(o) + " until " + until(o.ExpiresAt, now) + ", in " +
		output.Duration(o.ExpiresAt.Sub(now).Truncate(time.Second))
	about := "for " + output.Printable(o.Subjects.String())
	if o.Subjects.IsZero() {
		about = "for all subjects"
	}
	for _, name := range sortedNames(o.Attributes) {
		about += " " + name + "=" + output.Printable(o.Attributes[name])
	}
	if !o.Names.IsZero() {
		about += ", limit " + output.Printable(o.Names.String())
	}
	lines := []string{words, about + " (" + output.Printable(o.ID) + ")"}
	by := "set"
	if o.By != "" {
		by += " by " + output.Printable(o.By)
	}
	if o.Reason != "" {
		by += ": " + output.Printable(o.Reason)
	}
	return append(lines, by)
}

func sortedNames(attributes map[string]string) []string { return slices.Sorted(maps.Keys(attributes)) }
