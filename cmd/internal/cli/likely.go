package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// addLikely adds to a selection which keys are likely to be all of it, if it is of one subject.
func (s *SelectionOptions) addLikely(g *Globals, selection *operation.Selection) {
	subject, exact := selection.Query.Subjects.Exact()
	switch {
	case !exact || s.Policy != "" || s.Name != "" || s.Foreign:
	case g.Layouts == nil:
		selection.Likely = LikelyKeys(g, subject)
	default:
		selection.Likely, selection.LikelyStoreKeys = likelyStoreKeys(g, subject)
	}
}

// UnscannedText says under which names a command looked for the keys of one subject, and how to look at all keys.
func UnscannedText(g *Globals, u *operation.Unscanned) string {
	const shown = 5
	names := "those without a name, of usual periods"
	if g.Layouts != nil {
		names = "those with usual prefixes"
	} else if len(u.Names) > 0 {
		some := make([]string, 0, shown+1)
		for _, name := range u.Names[:min(shown, len(u.Names))] {
			some = append(some, output.Printable(output.Shorten(name, LongestKey)))
		}
		if more := len(u.Names) - shown; more > 0 {
			some = append(some, fmt.Sprintf("%d more", more))
		}
		names = strings.Join(some, ", ") + ", and " + names
	}
	return fmt.Sprintf("the store has many keys, so only these limits were looked for: %s; add %s to look at all keys", names,
		shell.Command("--limit-name", "*"))
}

// usualPeriods are the likely periods of limits without a name.
func usualPeriods() []time.Duration {
	const day = 24 * time.Hour
	return []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 7 * day, 30 * day, 365 * day}
}

// LikelyKeys returns the keys that a subject has by the configuration, if there is one
// without mistakes, and those of limits without a name with the usual periods.
func LikelyKeys(g *Globals, subject string) []store.Key {
	c, err := g.Config()
	if err != nil {
		c = &config.Config{}
	}
	var keys []store.Key
	periods := usualPeriods()
	for _, p := range c.Policies {
		for i := range p.Limits {
			periods = append(periods, p.Limits[i].Limit.Period)
		}
	}
	list, _ := policy.ParseSubject(subject)
	for _, key := range NamedKeys(g, AttributesOf(list)) {
		if key.Subject == subject {
			keys = append(keys, key)
		}
	}
	slices.Sort(periods)
	periods = slices.Compact(periods)
	for _, algorithm := range store.Algorithms() {
		for _, period := range periods {
			limit := store.Limit{Algorithm: algorithm, Count: 1, Period: period}
			keys = append(keys, store.Key{Subject: subject, Name: limit.DefaultName()})
		}
	}
	return keys
}

// NamedKeys returns the keys of configured limits that the attributes alone determine; none if the configuration has
// mistakes.
func NamedKeys(g *Globals, attributes policy.Attributes) (keys []store.Key) {
	c, err := g.Config()
	if err != nil {
		return nil
	}
	for _, p := range c.Policies {
		for i := range p.Limits {
			if l := &p.Limits[i]; len(l.Missing(attributes)) == 0 {
				keys = append(keys, p.Key(l, attributes))
			}
		}
	}
	return keys
}

// likelyForeign returns the keys that a subject is likely to have in other limiters, and their
// store keys: the subject itself, and behind each usual prefix of the layouts.
func likelyStoreKeys(g *Globals, subject string) (keys []store.Key, storeKeys []string) {
	storeKeys = []string{subject}
	for i := range g.Layouts {
		for _, prefix := range g.Layouts[i].Layout.Info().Prefixes {
			if !slices.Contains(storeKeys, prefix+subject) {
				storeKeys = append(storeKeys, prefix+subject)
			}
		}
	}
	for range storeKeys {
		keys = append(keys, store.Key{Subject: subject})
	}
	return keys, storeKeys
}
