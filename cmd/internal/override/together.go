package override

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// others are the IDs of the overrides that can meet an override on one key, by which of the two applies there.
type others struct{ over, losesTo []string }

// mostOthers is how many IDs a text names.
const mostOthers = 3

// together compares each pair of overrides, and returns the others of each by its ID.
func together(overrides []store.Override) map[string]*others {
	found := map[string]*others{}
	ranked := store.NewOverrideList(overrides).All() // the one that applies first
	for i := range ranked {
		found[ranked[i].ID] = &others{}
	}
	for i := range ranked {
		for j := i + 1; j < len(ranked); j++ {
			if meet(&ranked[i], &ranked[j]) {
				first, second := found[ranked[i].ID], found[ranked[j].ID]
				first.over = append(first.over, ranked[j].ID)
				second.losesTo = append(second.losesTo, ranked[i].ID)
			}
		}
	}
	return found
}

// meet reports whether there can be a key that both overrides are for. If it is wrong, it mostly reports true: see
// [store.Pattern.Overlaps].
func meet(a, b *store.Override) bool {
	if !a.Subjects.Overlaps(b.Subjects) || !a.Names.Overlaps(b.Names) {
		return false
	}
	return canHaveAll(a, b.Attributes) && canHaveAll(b, a.Attributes)
}

// canHaveAll reports whether an override can be for keys with these attributes, of which it may name others.
func canHaveAll(o *store.Override, attributes map[string]string) bool {
	for name, value := range attributes {
		if of, is := o.Attributes[name]; is && of != value || !o.Subjects.IsZero() && !canHave(o.Subjects, name, value) {
			return false
		}
	}
	return true
}

// text names the others, the ones that win first; it is empty if there are none.
func (o *others) text() string {
	if o == nil {
		return ""
	}
	var parts []string
	if len(o.losesTo) > 0 {
		parts = append(parts, "loses to "+someIDs(o.losesTo))
	}
	if len(o.over) > 0 {
		parts = append(parts, "over "+someIDs(o.over))
	}
	return strings.Join(parts, "; ")
}

func someIDs(ids []string) string {
	if more := len(ids) - mostOthers; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:mostOthers], ", "), more)
	}
	return strings.Join(ids, ", ")
}
