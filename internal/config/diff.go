package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Change is the kind of a change of a limit.
type Change string

// The changes.
const (
	Loosened  Change = "loosened"  // more is allowed
	Tightened Change = "tightened" // less is allowed
	Changed   Change = "changed"   // in some respects more, in others less
	Dropped   Change = "dropped"   // nothing limits any more
	Added     Change = "added"     // nothing limited before
)

// Difference is a change for some subjects between two configurations.
type Difference struct {
	Policy, Limit string
	// When are the attributes of the subjects; empty for all others.
	When policy.Attributes
	Change
	// Old and New are the limits, or whatever differs. One that is missing is empty.
	Old, New string
}

// Differences returns the changes from one configuration to another, in the order of the new one. What is dropped
// comes last.
func Differences(before, after *Config) []Difference {
	var all []Difference
	if was, is := cmp.Or(before.Prefix, store.DefaultPrefix), cmp.Or(after.Prefix, store.DefaultPrefix); was != is {
		all = append(all, Difference{Change: Changed, Old: "prefix " + was, New: "prefix " + is})
	}
	for _, p := range after.Policies {
		old := configfile.NamedPolicy(before.Policies, p.Name)
		if old != nil {
			all = append(all, policyDifferences(old, p)...)
		}
		for i := range p.Limits {
			l := &p.Limits[i]
			if was := limitOf(old, l.Name); was != nil {
				all = append(all, limitDifferences(p.Name, was, l)...)
			} else {
				text := limitText(l.Stored(), l.Shadow)
				all = append(all, Difference{Policy: p.Name, Limit: l.Name, Change: Added, New: text})
			}
		}
	}
	for _, p := range before.Policies {
		for i := range p.Limits {
			if l := &p.Limits[i]; limitOf(configfile.NamedPolicy(after.Policies, p.Name), l.Name) == nil {
				text := limitText(l.Stored(), l.Shadow)
				all = append(all, Difference{Policy: p.Name, Limit: l.Name, Change: Dropped, Old: text})
			}
		}
	}
	all = append(all, mappingDifferences(before, after)...)
	return append(all, httpDifferences(before, after)...)
}

func limitOf(p *policy.Policy, name string) *policy.Limit {
	if p == nil {
		return nil
	}
	for i := range p.Limits {
		if p.Limits[i].Name == name {
			return &p.Limits[i]
		}
	}
	return nil
}

// policyDifferences returns the changes that concern all limits of a policy.
func policyDifferences(before, after *policy.Policy) (all []Difference) {
	for _, of := range []struct{ what, before, after string }{
		{"on_error", failureText(before), failureText(after)},
		{"hash_by", strings.Join(before.HashBy, ", "), strings.Join(after.HashBy, ", ")},
	} {
		if of.before != of.after {
			all = append(all, Difference{Policy: after.Name, Change: Changed, Old: of.what + " " + of.before, New: of.what + " " +
				of.after})
		}
	}
	return all
}

func failureText(p *policy.Policy) string {
	if p.OnError == store.LocalOnError {
		return fmt.Sprintf("%s with %s", p.OnError, p.LocalShare)
	}
	return p.OnError.String()
}

// limitDifferences returns the changes of a limit, for the subjects of each override and for all others.
func limitDifferences(policyName string, before, after *policy.Limit) (all []Difference) {
	if old, now := strings.Join(before.By, ", "), strings.Join(after.By, ", "); old != now {
		all = append(all, Difference{Policy: policyName, Limit: after.Name, Change: Changed, Old: "by " + old, New: "by " + now})
	}
	if before.Cost != after.Cost {
		all = append(all, Difference{Policy: policyName, Limit: after.Name, Change: Changed,
			Old: costText(before.Cost), New: costText(after.Cost)})
	}
	if before.Warn != after.Warn {
		all = append(all, Difference{Policy: policyName, Limit: after.Name, Change: Changed,
			Old: warnText(before.Warn), New: warnText(after.Warn)})
	}
	if old, now := classesText(before), classesText(after); old != now {
		all = append(all, Difference{Policy: policyName, Limit: after.Name, Change: Changed, Old: old, New: now})
	}
	whos := []policy.Attributes{{}}
	for _, override := range slices.Concat(before.Exceptions, after.Exceptions) {
		if !slices.ContainsFunc(whos, func(who policy.Attributes) bool { return maps.Equal(who, override.When) }) {
			whos = append(whos, override.When)
		}
	}
	for _, who := range whos {
		old, _ := before.For(who)
		now, _ := after.For(who)
		change, differs := Compare(old, now)
		switch {
		case before.Shadow && after.Shadow && !differs:
			continue
		case before.Shadow && !after.Shadow: // it did not deny before
			change = Tightened
		case after.Shadow && !before.Shadow:
			change = Loosened
		case !differs:
			continue
		}
		all = append(all, Difference{Policy: policyName, Limit: after.Name, When: who, Change: change,
			Old: limitText(old, before.Shadow), New: limitText(now, after.Shadow)})
	}
	return all
}

func costText(c policy.Cost) string {
	if c == (policy.Cost{}) {
		return "cost of the call"
	}
	return "cost " + c.String()
}

func warnText(share store.Share) string {
	if share == 0 {
		return "no warning"
	}
	return "warn " + share.String()
}

func classesText(l *policy.Limit) string {
	if l.Classes.IsZero() {
		return "no classes"
	}
	return "classes " + l.Classes.String()
}

func limitText(l store.Limit, shadow bool) string {
	if shadow {
		return l.String() + ", shadow"
	}
	return l.String()
}

// Compare compares a limit with its replacement, by what is allowed at once and over time. differs is false if they
// are the same.
func Compare(before, after store.Limit) (change Change, differs bool) {
	if normal, err := before.Normalize(); err == nil {
		before = normal
	}
	if normal, err := after.Normalize(); err == nil {
		after = normal
	}
	if before == after {
		return "", false
	}
	overTime, atOnce := allowance.Compare(before, after)
	switch {
	case before.Algorithm != after.Algorithm || overTime*atOnce < 0 || overTime == 0 && atOnce == 0:
		return Changed, true
	case overTime > 0 || atOnce > 0:
		return Loosened, true
	}
	return Tightened, true
}
