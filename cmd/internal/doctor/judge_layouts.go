package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// judge turns the facts into findings: the layouts, then what is wrong with their keys.
func (f *layoutFacts) judge(resetNoTTL func(layout string) string) []Finding {
	found := []Finding{f.judgeLayouts()}
	if f.unsure.count > 0 {
		found = append(found, f.judgeUnsure())
	}
	if f.unreadable.count > 0 {
		found = append(found, Finding{Check: "layouts", Status: Warn,
			Summary: fmt.Sprintf("%s left out: %s", output.Plural(f.unreadable.count, "key"), f.unreadable.text()),
			Advice:  "see whether these keys are of that layout",
			Data:    map[string]any{"unreadable": f.unreadable.count, "examples": f.unreadable.examples}})
	}
	defects := slices.Collect(maps.Keys(f.defects))
	slices.SortFunc(defects, func(a, b layoutDefect) int {
		x, y := f.defects[a], f.defects[b]
		return cmp.Or(cmp.Compare(rank(b, y), rank(a, x)), cmp.Compare(y.count, x.count), cmp.Compare(a.layout, b.layout),
			cmp.Compare(a.Text, b.Text))
	})
	for _, defect := range defects {
		found = append(found, judgeDefect(defect, f.defects[defect], resetNoTTL))
	}
	if len(defects) == 0 && len(f.layouts) > 0 {
		found = append(found, Finding{Check: "defects", Status: OK,
			Summary: "nothing is wrong with the keys of other limiters" + f.among()})
	}
	return found
}

func (f *layoutFacts) judgeLayouts() Finding {
	names := slices.SortedFunc(maps.Keys(f.layouts), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.layouts[b].limits, f.layouts[a].limits), cmp.Compare(a, b))
	})
	texts, data, unknown := make([]string, len(names)), map[string]any{}, int64(0)
	for i, name := range names {
		count := f.layouts[name]
		texts[i] = fmt.Sprintf("%s %s", name, output.Plural(count.limits, "limit"))
		if count.atLimit > 0 {
			texts[i] += fmt.Sprintf(" (%d at the limit)", count.atLimit)
		}
		unknown += count.limitUnknown
		data[name] = map[string]any{"limits": count.limits, "at_limit": count.atLimit, "not_known": count.limitUnknown}
	}
	finding := Finding{Check: "layouts", Status: OK, Summary: cmp.Or(strings.Join(texts, ", "), "no limits of other limiters"),
		Data: map[string]any{"layouts": data, "looked": f.looked, "total": f.total, "complete": f.complete}}
	if unknown > 0 {
		finding.Summary += fmt.Sprintf("; of %s it is not known how much is allowed, and --limit can say it",
			output.Plural(unknown, "limit"))
	}
	if !f.complete {
		finding.Summary = fmt.Sprintf("stopped early: %s%s (--scan-limit 0 looks at all)", finding.Summary, f.among())
	}
	return finding
}

// among says among which keys something was found. It is empty if all were looked at.
func (f *layoutFacts) among() string {
	if f.complete {
		return ""
	}
	return fmt.Sprintf(" among the %d keys looked at of %s", f.looked, output.Plural(f.total, "key"))
}

func (f *layoutFacts) judgeUnsure() Finding {
	slices.Sort(f.mayBe)
	finding := Finding{Check: "layouts", Status: OK,
		Summary: fmt.Sprintf("not sure of %s that may be of %s, and left out: %s", output.Plural(f.unsure.count, "key"),
			strings.Join(f.mayBe, " or "), f.unsure.text()),
		Data: map[string]any{"unsure": f.unsure.count, "examples": f.unsure.examples, "may_be": f.mayBe, "no_ttl": f.unsureNoTTL.count}}
	if f.unsureNoTTL.count > 0 {
		finding.Status = Warn
		finding.Summary = fmt.Sprintf("not sure of %s that may be of %s, and left out; %s without a TTL, which may deny for ever: %s",
			output.Plural(f.unsure.count, "key"), strings.Join(f.mayBe, " or "),
			output.Plural(f.unsureNoTTL.count, "key"), f.unsureNoTTL.text())
		finding.Advice = "find out which limiter writes them, and look at them by its name: inspect --layout NAME with a " +
			"pattern of these keys"
	}
	return finding
}

// rank returns how bad a defect is: whether it denies now, and whether it stays.
func rank(d layoutDefect, count *defectCount) int {
	switch {
	case d.Stuck && count.atLimit > 0:
		return 2
	case d.Stuck:
		return 1
	}
	return 0
}

// judgeDefect returns a failure for a defect that denies somebody now and does not pass by itself, and a warning for
// any other.
func judgeDefect(d layoutDefect, count *defectCount, resetNoTTL func(layout string) string) Finding {
	finding := Finding{Check: "defects", Status: Warn, Data: map[string]any{"layout": d.layout, "kind": string(d.Kind), "text": d.Text,
		"stuck": d.Stuck, "count": count.count, "at_limit": count.atLimit, "examples": count.examples}}
	if rank(d, count) == 2 {
		finding.Status = Fail
	}
	atLimit := ""
	if count.atLimit > 0 {
		atLimit = fmt.Sprintf(", %d of them at the limit", count.atLimit)
	}
	finding.Summary = fmt.Sprintf("%s of %s%s: %s: %s", output.Plural(count.count, "key"), d.layout, atLimit, d.Text, count.text())
	if d.Stuck {
		finding.Advice = "waiting does not help; delete these keys"
		if d.Kind == admin.NeverExpires {
			finding.Advice += ", and look first with this command, which changes nothing:"
			finding.Command = resetNoTTL(d.layout)
		}
		return finding
	}
	finding.Advice = passingAdvice(d.Kind)
	return finding
}

// passingAdvice returns advice for a defect that deleting keys does not cure.
func passingAdvice(kind admin.DefectKind) string {
	switch kind {
	case admin.ShortTTL:
		return "deleting keys does not help; look for a version of the limiter that keeps them longer, or set a smaller burst"
	case admin.NeverExpires, admin.AbsurdTTL:
		return "the keys take memory until somebody deletes them; those in use are left alone, and count as they should"
	case admin.Grows:
		return "watch the memory that it takes; the limiter itself would have to remove what is over"
	}
	return "look for a version of the limiter that does not have it"
}
