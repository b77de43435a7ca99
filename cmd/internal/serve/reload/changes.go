package reload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// Hash identifies the part of a configuration about policies and how they are served. Contexts, which can contain
// passwords, and comments do not count.
func Hash(c *config.Config) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %t %v\n", c.Prefix, c.ServesDenials(), c.LocalShare)
	if b := c.Breaker; b != nil {
		fmt.Fprintln(sum, "breaker", b.Failures, b.Slow, b.Pause, b.MaxPause)
	}
	for _, p := range c.Policies {
		fmt.Fprintf(sum, "policy %+v\n", *p)
	}
	for _, setting := range config.HTTPSettings(c) {
		fmt.Fprintf(sum, "%s %q\n", setting.Name, setting.Value)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// mostTold is the most differences that the log lists.
const mostTold = 50

// tellRemarks logs what has no equal in the files of envoyproxy/ratelimit.
func (r *Reloader) tellRemarks(c *config.Config) {
	for i, remark := range c.Remarks {
		if i == mostTold {
			r.Log.Warn("more of the files of envoyproxy/ratelimit has no equal", "more", len(c.Remarks)-mostTold)
			break
		}
		r.Log.Warn("a setting of envoyproxy/ratelimit has no equal", "at", fmt.Sprintf("%s:%d", remark.Path, remark.Line),
			"setting", remark.Field, "remark", remark.Text)
	}
}

// tell logs what is in force now, and for whom that is more or less.
func (r *Reloader) tell(before, after *config.Config, hash string) {
	// tellFixed reports what is fixed.
	differences := slices.DeleteFunc(config.Differences(before, after), func(d config.Difference) bool {
		return d.Policy == "" && strings.HasPrefix(d.New, "prefix ")
	})
	counts := map[config.Change]int{}
	for i := range differences {
		d := &differences[i]
		counts[d.Change]++
		if i >= mostTold {
			continue
		}
		var args []any
		for _, fact := range [][2]string{{"policy", d.Policy}, {"limit", d.Limit}, {"for", r.who(d.When)}, {"old", d.Old}, {"new", d.New}} {
			if fact[1] != "" {
				args = append(args, fact[0], fact[1])
			}
		}
		what := "limit"
		if d.Limit == "" {
			what = "setting"
		}
		r.Log.Info("a "+what+" is "+string(d.Change), args...)
	}
	if more := len(differences) - mostTold; more > 0 {
		r.Log.Info("more limits or settings differ", "more", more)
	}
	r.Log.Info("another configuration is in force", "files", after.Read, "hash", hash, "policies", len(after.Policies),
		"policies_added", names(after, before), "policies_removed", names(before, after), "loosened", counts[config.Loosened],
		"tightened", counts[config.Tightened], "changed", counts[config.Changed], "limits_added", counts[config.Added],
		"limits_dropped", counts[config.Dropped])
}

// who returns the subjects of a difference, empty for all others.
func (r *Reloader) who(when policy.Attributes) string {
	var words []string
	for _, name := range when.Names() {
		value := "…"
		if r.Subjects {
			value = when[name]
		}
		words = append(words, name+"="+value)
	}
	return strings.Join(words, " ")
}

// names returns the policies of one configuration that the other does not have.
func names(of, not *config.Config) []string {
	names := []string{}
	for _, p := range of.Policies {
		if !slices.ContainsFunc(not.Policies, func(other *policy.Policy) bool { return other.Name == p.Name }) {
			names = append(names, p.Name)
		}
	}
	return names
}

// bothKeys returns the keys of two maps, each once.
func bothKeys(a, b map[string]string) iter.Seq[string] {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return maps.Keys(both)
}
