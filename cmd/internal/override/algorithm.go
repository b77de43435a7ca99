package override

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// inAlgorithmOf sets the algorithm of an override's limit that is written without one. It takes the algorithm of the
// configured limits that the override concerns, if they share one, since whoever raises a limit does not mean to count
// differently. It returns the text of the limit.
func (o *overrideSetOptions) inAlgorithmOf(override *store.Override) (text string, is bool) {
	if override.Effect != store.OverrideLimit || strings.Contains(o.limit, ":") {
		return "", false
	}
	c, err := o.Config()
	if err != nil {
		return "", false
	}
	var found []store.Limit
	for _, p := range c.Policies {
		for i := range p.Limits {
			if l := &p.Limits[i]; concerns(override, p, l) {
				for _, candidate := range l.Candidates(override.Attributes) {
					limit, _ := candidate.Limit.Normalize()
					found = append(found, limit)
				}
			}
		}
	}
	like := func(a, b store.Limit) bool {
		return a.Algorithm == b.Algorithm && a.Slices == b.Slices
	}
	if len(found) == 0 || slices.ContainsFunc(found, func(l store.Limit) bool { return !like(l, found[0]) }) {
		return "", false
	}
	text = found[0].Algorithm.String() + ":" + o.limit
	if found[0].Slices > 1 {
		text += fmt.Sprintf(",slices=%d", found[0].Slices)
	}
	limit, err := store.ParseLimit(text)
	plain, _ := override.Limit.Normalize()
	if err != nil || like(limit, plain) { // for example a burst, which that algorithm does not have
		return "", false
	}
	override.Limit = limit
	return text, true
}

// concerns reports whether an override may apply to keys of a policy's limit.
func concerns(override *store.Override, p *policy.Policy, l *policy.Limit) bool {
	known := maps.Clone(override.Attributes)
	if subject, exact := override.Subjects.Exact(); exact {
		list, _ := policy.ParseSubject(subject)
		known = allowance.AttributesOf(list)
	}
	some := policy.Attributes{} // of one caller of the limit, as far as the override names them
	for _, name := range l.By {
		some[name] = cmp.Or(known[name], "*")
	}
	for name := range override.Attributes {
		if some[name] == "" {
			return false
		}
	}
	if !override.Names.IsZero() && !override.Names.Match(p.Name+"/"+l.Name) {
		return false
	}
	subjects, err := store.ParsePattern(p.Key(l, some).Subject)
	return err != nil || subjects.Overlaps(override.Subjects)
}

// noteAlgorithm warns that an override changes the algorithm of keys in use, and prints how to keep it.
func (o *overrideSetOptions) noteAlgorithm(plan *overridePlan, c *operation.Concerned) {
	if plan.Override.Effect != store.OverrideLimit || strings.Contains(o.limit, ":") {
		return
	}
	limit, _ := plan.Override.Limit.Normalize()
	for i := range c.Examples {
		if was := c.Examples[i].Written; was.Count > 0 && was.Algorithm != limit.Algorithm {
			o.Note("it changes the algorithm, such as of %s to %s; to keep it, write %s", was.String(), limit.String(),
				shell.Command("--limit", was.Algorithm.String()+":"+o.limit))
			return
		}
	}
}
