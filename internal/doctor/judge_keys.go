package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
)

func judgeKeys(f *keyFacts) []Finding {
	keys := Finding{Check: "keys", Status: OK, Data: map[string]any{"looked": f.looked, "total": f.total, "complete": f.complete,
		"limits": f.limits}}
	keys.Summary = fmt.Sprintf("%s among all %s of the store", output.Plural(f.limits, "limit"), output.Plural(f.looked, "key"))
	switch {
	case !f.complete:
		keys.Summary = fmt.Sprintf("stopped early: %s%s (--scan-limit 0 looks at all)", output.Plural(f.limits, "limit"), f.among())
	case f.total == 0: // unknown
		keys.Summary = output.Plural(f.limits, "limit") + " among all keys of the store"
	}
	all := []Finding{keys, f.judgeTTLs(), f.judgeForeign()}
	if f.damaged.count > 0 {
		all = append(all, Finding{Check: "damaged", Status: Fail,
			Summary: fmt.Sprintf("%s of limitctl damaged%s, so that takes can fail: %s",
				output.Plural(f.damaged.count, "record"), f.among(), f.damaged.text()),
			Advice: "a reset of the key deletes the record, and the next take begins anew",
			Data:   map[string]any{"count": f.damaged.count, "examples": orEmpty(f.damaged.examples)}})
	}
	if f.sized {
		all = append(all, f.size())
	}
	if len(f.biggest) > 0 {
		all = append(all, f.judgeBiggest())
	}
	if f.limits > 0 {
		all = append(all, f.policies())
	}
	return all
}

// among says among which keys something was found. It is empty if all were looked at.
func (f *keyFacts) among() string {
	switch {
	case f.complete:
		return ""
	case f.total > 0:
		return fmt.Sprintf(" among the %d looked at of %s", f.looked, output.Plural(f.total, "key"))
	}
	return fmt.Sprintf(" among the %d keys looked at", f.looked)
}

func (f *keyFacts) judgeTTLs() Finding {
	found := Finding{Check: "ttl", Status: OK, Summary: "every limit expires",
		Data: map[string]any{"count": f.noTTL.count, "examples": orEmpty(f.noTTL.examples)}}
	if !f.complete {
		found.Summary = "no limit without an expiry" + f.among()
	}
	if f.noTTL.count > 0 {
		found.Status = Warn
		found.Summary = fmt.Sprintf("%s without an expiry%s, as after a PERSIST or a copy: %s", output.Plural(f.noTTL.count, "limit"),
			f.among(), f.noTTL.text())
		found.Advice = "see limitctl inspect '*' --no-ttl; the next take that is allowed sets its expiry again, " +
			"unless its record is damaged, " +
			"and a reset deletes it"
	}
	return found
}

func (f *keyFacts) judgeForeign() Finding {
	found := Finding{Check: "foreign", Status: OK, Summary: "no foreign keys under the prefix " + f.prefix + f.among(),
		Data: map[string]any{"count": f.foreign.count, "examples": orEmpty(f.foreign.examples)}}
	if f.foreign.count > 0 {
		found.Status = Warn
		found.Summary = fmt.Sprintf("%s under the prefix %s that limitctl did not write%s: %s",
			output.Plural(f.foreign.count, "key"), f.prefix, f.among(), f.foreign.text())
		found.Advice = "limitctl does not touch them; give limits a prefix of their own (--prefix), or delete what nobody needs: " +
			shell.Unlink(f.foreignKey)
	}
	return found
}

func (f *keyFacts) size() Finding {
	found := Finding{Check: "size", Status: OK, Data: map[string]any{"looked_bytes": f.bytes}}
	found.Summary = fmt.Sprintf("limits take %s of memory", output.Bytes(f.bytes))
	if f.limits > 0 {
		found.Summary += fmt.Sprintf(", %s each on average", output.Bytes(f.bytes/f.limits))
	}
	if !f.complete && f.total > 0 && f.looked > 0 {
		estimate := int64(float64(f.bytes) * float64(f.total) / float64(f.looked))
		found.Data["estimated_bytes"] = estimate
		found.Summary = fmt.Sprintf("limits take about %s of memory, an estimate from %s in %s", output.Bytes(estimate),
			output.Bytes(f.bytes), output.Plural(f.limits, "key"))
	}
	return found
}

// longestRanked is the most bytes of a key in the text of a ranking. Its data has the whole key.
const longestRanked = 100

func (f *keyFacts) judgeBiggest() Finding {
	var texts []string
	var data []map[string]any
	for _, r := range f.biggest {
		texts = append(texts, output.Printable(output.Shorten(r.storeKey, longestRanked))+" "+output.Bytes(r.bytes))
		data = append(data, map[string]any{"store_key": r.storeKey, "bytes": r.bytes})
	}
	return Finding{Check: "biggest", Status: OK, Summary: strings.Join(texts, ", ") + f.among(), Data: map[string]any{"keys": data}}
}

// shownPolicies is the number of policies in the text; the data has all of them.
const shownPolicies = 5

func (f *keyFacts) policies() Finding {
	names := slices.Collect(maps.Keys(f.perPolicy))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(f.perPolicy[b], f.perPolicy[a]), cmp.Compare(a, b)) })
	var texts []string
	for _, name := range names[:min(shownPolicies, len(names))] {
		texts = append(texts, fmt.Sprintf("%s %d", output.Printable(name), f.perPolicy[name]))
	}
	if more := len(names) - shownPolicies; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return Finding{Check: "policies", Status: OK, Summary: strings.Join(texts, ", ") + f.among(), Data: map[string]any{"keys": f.perPolicy}}
}

func (s *sample) text() string {
	quoted := make([]string, len(s.examples))
	for i, text := range s.examples {
		quoted[i] = output.Printable(text)
	}
	text := strings.Join(quoted, ", ")
	if s.count > int64(len(s.examples)) {
		text += ", …"
	}
	return text
}

// orEmpty returns texts so that JSON has a list.
func orEmpty(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}
