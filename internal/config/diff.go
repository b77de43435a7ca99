package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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
	Policy string `json:"policy"`
	Limit  string `json:"limit,omitempty"`
	// When are the attributes of the subjects; empty for all others.
	When   policy.Attributes `json:"when,omitempty"`
	Change Change            `json:"change"`
	// Old and New are the limits, or whatever differs. One that is missing is empty.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// Differences returns the changes from one configuration to another, in the order of the new one. What is dropped
// comes last, before the settings that are not of limits.
func Differences(before, after *Config) []Difference {
	all := []Difference{}
	for _, p := range after.Policies {
		old := configfile.NamedPolicy(before.Policies, p.Name)
		for i := range p.Limits {
			l := &p.Limits[i]
			was := limitOf(old, l.Name)
			if was == nil {
				all = append(all, Difference{
					Policy: p.Name, Limit: l.Name, Change: Added, New: limitText(l.Stored(), l.Shadow)})
				continue
			}
			wasTexts, texts := limitTexts(was), limitTexts(l)
			for i := range texts {
				if wasTexts[i] != texts[i] {
					all = append(all, Difference{Policy: p.Name, Limit: l.Name, Change: Changed, Old: wasTexts[i],
						New: texts[i]})
				}
			}
			all = append(all, amountDifferences(p.Name, was, l)...)
		}
	}
	for _, p := range before.Policies {
		for i := range p.Limits {
			if l := &p.Limits[i]; limitOf(configfile.NamedPolicy(after.Policies, p.Name), l.Name) == nil {
				all = append(all, Difference{Policy: p.Name, Limit: l.Name, Change: Dropped,
					Old: limitText(l.Stored(), l.Shadow)})
			}
		}
	}
	return append(all, settingDifferences(before, after)...)
}

// settingDifferences returns the changes of what is no limit: settings for all, and of policies that both have.
func settingDifferences(before, after *Config) (all []Difference) {
	old, now := settingsOf(before), settingsOf(after)
	names := slices.Collect(maps.Keys(old))
	names = slices.AppendSeq(names, maps.Keys(now))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		d, what := Difference{Change: Changed}, name
		if rest, is := strings.CutPrefix(name, "policies."); is {
			d.Policy, what, _ = strings.Cut(rest, ".")
			if strings.HasPrefix(what, "limits") || configfile.NamedPolicy(before.Policies, d.Policy) == nil ||
				configfile.NamedPolicy(after.Policies, d.Policy) == nil {
				continue
			}
		}
		if old[name] != "" {
			d.Old = what + " " + old[name]
		}
		if now[name] != "" {
			d.New = what + " " + now[name]
		}
		if d.Old != d.New {
			all = append(all, d)
		}
	}
	return all
}

// settingsOf are the values of a configuration as they are written, by their paths, without contexts. The prefix, which
// can be that of another file, is the one in use.
func settingsOf(c *Config) map[string]string {
	values := map[string]string{}
	for path, origin := range c.origins {
		if !strings.HasPrefix(path, "contexts") {
			values[path] = origin.text
		}
	}
	values["prefix"] = cmp.Or(c.Prefix, store.DefaultPrefix)
	return values
}

// Hash identifies the part of a configuration that decides and is served, without contexts, layouts and comments.
func Hash(c *Config) string {
	sum, values := sha256.New(), settingsOf(c)
	for _, path := range slices.Sorted(maps.Keys(values)) {
		if !strings.HasPrefix(path, "layouts") {
			fmt.Fprintf(sum, "%s %q\n", path, values[path])
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
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

// limitTexts are what a limit has besides its amounts.
func limitTexts(l *policy.Limit) [3]string {
	texts := [...]string{"by " + strings.Join(l.By, ", "), "cost of the call", "no classes"}
	if l.Cost != (policy.Cost{}) {
		texts[1] = "cost " + l.Cost.String()
	}
	if !l.Classes.IsZero() {
		texts[2] = "classes " + l.Classes.String()
	}
	return texts
}

// amountDifferences returns the changes of how much a limit allows, for the subjects of each override and for all
// others.
func amountDifferences(policyName string, before, after *policy.Limit) (all []Difference) {
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
