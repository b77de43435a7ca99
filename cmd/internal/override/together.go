package override

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// others are the IDs of the overrides that can meet an override on one key, by which of the two applies there.
type others struct{ over, losesTo []string }

// mostOthers is how many IDs a text names.
const mostOthers = 3

// policiesOf returns the policies of the configuration, or nil if it cannot be read.
func policiesOf(g *cli.Globals) []*policy.Policy {
	c, err := g.Config()
	if err != nil {
		return nil
	}
	return c.Policies
}

// together compares each pair of overrides, and returns the others of each by its ID.
func together(overrides []store.Override, policies []*policy.Policy) map[string]*others {
	found := map[string]*others{}
	ranked := store.NewOverrideList(overrides).All() // the one that applies first
	for i := range ranked {
		found[ranked[i].ID] = &others{}
	}
	for i := range ranked {
		for j := i + 1; j < len(ranked); j++ {
			if meet(&ranked[i], &ranked[j]) && meetIn(policies, &ranked[i], &ranked[j]) {
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

// meetIn reports whether the policies make keys that both overrides can be for. It is true unless one of them is for a
// known policy.
func meetIn(policies []*policy.Policy, a, b *store.Override) bool {
	for _, o := range []*store.Override{a, b} {
		name, _, _ := strings.Cut(o.Names.LiteralBeginning(), "/")
		p := configfile.NamedPolicy(policies, name)
		if p == nil || !strings.HasPrefix(o.Names.LiteralBeginning(), name+"/") {
			continue
		}
		if !slices.ContainsFunc(p.Limits, func(l policy.Limit) bool { return meetAt(p, &l, a, b) }) {
			return false
		}
	}
	return true
}

// meetAt reports whether both overrides can be for one key of a policy's limit.
func meetAt(p *policy.Policy, l *policy.Limit, a, b *store.Override) bool {
	known := policy.Attributes{}
	for _, name := range l.By {
		known[name] = "*"
	}
	for _, o := range []*store.Override{a, b} {
		for name, value := range o.Attributes {
			switch {
			case known[name] == "":
				return false
			case !strings.ContainsAny(value, `*?[\`):
				known[name] = value
			}
		}
	}
	key := p.Key(l, known)
	subjects, err := store.ParsePattern(key.Subject)
	names, nameErr := store.ParsePattern(key.Name)
	if err != nil || nameErr != nil {
		return true
	}
	limitName, _ := store.ExactPattern(p.Name + "/" + l.Name) // an override of a hash_by policy can name the limit alone
	for _, o := range []*store.Override{a, b} {
		if !o.Subjects.Overlaps(subjects) || !o.Names.Overlaps(names) && !o.Names.Overlaps(limitName) {
			return false
		}
	}
	return true
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
