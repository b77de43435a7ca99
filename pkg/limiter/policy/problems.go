package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Problem is a mistake in a policy. Path is its place, relative to the policy: "limits[1].overrides[0].when".
type Problem struct {
	Path string
	Text string
}

// Problems returns all mistakes in the policy, in the order of its parts.
func (p *Policy) Problems() []Problem {
	var problems []Problem
	add := func(path, format string, args ...any) {
		problems = append(problems, Problem{path, fmt.Sprintf(format, args...)})
	}
	if err := validateOwnName("policy", p.Name); err != nil {
		add("", "%s", err)
	}
	if len(p.Limits) == 0 {
		add("limits", "policy %q has no limits; add at least one", p.Name)
	}
	if len(p.Limits) > store.MaxRequests {
		add("limits", "policy %q has %d limits; at most %d are decided together", p.Name, len(p.Limits),
			store.MaxRequests)
	}
	if p.Wait != 0 && (p.Wait < time.Millisecond || p.Wait > MaxWait) {
		add("wait", "wait %s must be from 1ms to %s", store.FormatPeriod(p.Wait), store.FormatPeriod(MaxWait))
	}
	for _, text := range duplicates(p.HashBy) {
		add("hash_by", "attribute %q is named twice; name it once", text)
	}
	for i := range p.Limits {
		limit, path := &p.Limits[i], fmt.Sprintf("limits[%d]", i)
		if err := validateOwnName("limit", limit.Name); err != nil {
			add(path+".name", "%s", err)
		} else if first := slices.IndexFunc(p.Limits, func(l Limit) bool { return l.Name == limit.Name }); first < i {
			add(path+".name", "limits %d and %d of policy %q are both named %q, so they would share keys; rename one",
				first+1, i+1,
				p.Name, limit.Name)
		}
		limit.problems(path, add)
		p.costProblems(limit, path, add)
		limit.classProblems(path, add)
		if n := len(p.HashBy); len(limit.By) > 0 && (len(limit.By) < n || !slices.Equal(limit.By[:n], p.HashBy)) {
			add(path+".by", "limit %q has by: %s, which must begin with the policy's hash_by: %s, so that all keys "+
				"are in one slot",
				limit.Name, list(limit.By), list(p.HashBy))
		}
	}
	return problems
}

func (l *Limit) problems(path string, add func(path, format string, args ...any)) {
	if len(l.By) == 0 {
		add(path+".by", "limit %q has no attributes in by; name at least one, such as by: [ip]", l.Name)
	}
	for _, name := range l.By {
		if err := ValidateName("attribute", name); err != nil {
			add(path+".by", "%s", err)
		}
	}
	for _, name := range duplicates(l.By) {
		add(path+".by", "attribute %q is named twice; name it once", name)
	}
	if _, err := l.Stored().Normalize(); err != nil {
		add(path+".limit", "%s", err)
	}
	// An exception that hides a later one requires only attributes of that one with the same values, so it is found
	// by its first attribute.
	byFirst := map[Attribute][]int{}
	for i, exception := range l.Exceptions {
		at := fmt.Sprintf("%s.overrides[%d]", path, i)
		if len(exception.When) == 0 {
			add(at+".when", "the override has no attributes in when; name at least one, such as when: {tenant: acme}")
			continue
		}
		for _, name := range exception.When.Names() {
			if err := ValidateName("attribute", name); err != nil {
				add(at+".when", "%s", err)
			} else if exception.When[name] == "" {
				add(at+".when", "attribute %q is empty; give it a value, since requests always have one", name)
			}
		}
		if _, err := exception.Limit.Stored().Normalize(); err != nil {
			add(at+".limit", "%s", err)
		}
		before := i
		for name, value := range exception.When {
			for _, j := range byFirst[Attribute{name, value}] {
				if j < before && exception.When.has(l.Exceptions[j].When) {
					before = j
				}
			}
		}
		if before < i {
			add(at+".when", "override %d of limit %q is never reached, because override %d matches first; move it up "+
				"or remove it",
				i+1, l.Name, before+1)
		}
		first := exception.When.Names()[0]
		byFirst[Attribute{first, exception.When[first]}] = append(byFirst[Attribute{first, exception.When[first]}], i)
	}
}

// costProblems reports what is wrong with the limit's own cost.
func (p *Policy) costProblems(l *Limit, path string, add func(path, format string, args ...any)) {
	if err := l.Cost.check(); err != nil {
		add(path+".cost", "%s", err)
		return
	}
	if l.Cost.Field != "" {
		if known, _ := p.Attributes(); slices.Contains(known, l.Cost.Field) {
			add(path+".cost", "cost %q is also an attribute of policy %q; give one of them another name", l.Cost.Field,
				p.Name)
		}
		return
	}
	l.checkRoom(l.Cost.Units, 0, func(limit store.Limit, cost, _ int64) {
		add(path+".cost", "cost %d can never fit limit %s, which allows at most %d at once", cost, limit,
			limit.Capacity())
	})
}

// checkRoom reports the first limit, of l and its exceptions, that never allows the cost while the share is left.
func (l *Limit) checkRoom(cost int64, share store.Share, report func(limit store.Limit, cost, leave int64)) {
	limits := []store.Limit{l.Stored()}
	for i := range l.Exceptions {
		limits = append(limits, l.Exceptions[i].Limit.Stored())
	}
	for _, limit := range limits {
		limit, err := limit.Normalize()
		leave := unitsOf(share, limit)
		if err == nil && !l.Shadow && cost+leave > limit.Capacity() && (share == 0 || cost <= limit.Capacity()) {
			report(limit, cost, leave)
			return
		}
	}
}

// validateOwnName is ValidateName for texts that begin the names of keys, as the names of algorithms do.
func validateOwnName(what, name string) error {
	if what == "policy" && isAlgorithm(name) {
		return store.Invalidf("policy name %q is the name of an algorithm; choose another, since its keys would look "+
			"like those "+
			"of unnamed limits", name)
	}
	return ValidateName(what, name)
}

// isAlgorithm reports whether a name is one that store.ParseAlgorithm takes. A scan asks that of each key, so it does
// not look for a similar one.
func isAlgorithm(name string) bool {
	return name == "gcra" || slices.ContainsFunc(store.Algorithms(), func(a store.Algorithm) bool {
		return a.String() == name
	})
}

func duplicates(names []string) (twice []string) {
	for i, name := range names {
		if slices.Contains(names[:i], name) && !slices.Contains(twice, name) {
			twice = append(twice, name)
		}
	}
	return twice
}

func list(names []string) string { return "[" + strings.Join(names, ", ") + "]" }
