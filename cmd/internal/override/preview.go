package override

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// preview finds what an override would change, and shows it before the question. In a large store it scans all keys
// only for a dry run of a pattern, since the user waits for it.
func (o *overrideSetOptions) preview(ctx context.Context, runner *operation.Runner, plan *overridePlan, place string) (
	*operation.Concerned, error) {
	most := o.Timeout
	if _, exact := plan.Override.Subjects.Exact(); o.dryRun && !exact {
		most = 0
	}
	concerned, err := o.concerned(ctx, runner, plan, most)
	if err != nil || o.Quiet && o.dryRun {
		return concerned, err
	}
	switch {
	case concerned.Keys == 0 && concerned.Incomplete != nil: // unknown; a line below says so
	case concerned.Keys == 0 || concerned.Cut:
		o.noteUnder(plan, concerned, place)
	default:
		verb := "match"
		if concerned.Keys == 1 {
			verb = "matches"
		}
		o.Say("%s in use %s %s in %s: %s", cli.CountOf(concerned.Keys, "key", "keys"), verb, plan.selection.Text, place,
			changesText(concerned))
		if concerned.DeniedOf > 0 {
			o.Say("it concerns %s", deniedText(concerned))
		}
	}
	for i := range concerned.Examples {
		e := &concerned.Examples[i]
		o.Say("  %s  %s → %s", output.Printable(e.StoreKey), ruleText(&e.Now), ruleText(&e.Then))
	}
	if more := concerned.Keys - int64(len(concerned.Examples)); more > 0 {
		o.Say("  … and %s more", output.Thousands(more))
	}
	o.noteAlgorithm(plan, concerned)
	for _, w := range concerned.Winning {
		o.Say("to %s of them %s applies instead, %s", output.Thousands(w.Keys), sentence(w.Override, o.Env.Now()), "which comes first")
	}
	if concerned.Incomplete != nil {
		o.Note("warning: not all keys could be looked at: %s", cli.Message(concerned.Incomplete))
	}
	return concerned, nil
}

// concerned looks for the keys that an override concerns, for at most that long.
func (o *overrideSetOptions) concerned(ctx context.Context, runner *operation.Runner, plan *overridePlan, most time.Duration) (
	*operation.Concerned, error) {
	return runner.PreviewOverride(ctx, &operation.PreviewPlan{Override: plan.Override, Selection: plan.selection,
		Configured: cli.Configured(o.Globals), Most: most, Named: plan.named}, &cli.Observer{Global: o.Globals})
}

// noteUnder prints whom an override concerns, if the command has not shown it before. A misspelt pattern must not look
// like success.
func (o *overrideSetOptions) noteUnder(plan *overridePlan, c *operation.Concerned, place string) {
	if c.Keys == 0 && c.Denied == 0 && !c.Cut {
		o.Note("nothing in use matches %s in %s yet; the override is for keys to come, too", plan.selection.Text, place)
		return
	}
	var parts []string
	looked := fmt.Sprintf("%s of about %s keys of %s looked at in %s", output.Thousands(c.Looked), output.Thousands(c.Total), place,
		store.FormatPeriod(o.Timeout))
	switch {
	case c.Keys > 0 && c.Cut:
		parts = append(parts, fmt.Sprintf("at least %s in use (%s)", cli.CountOf(c.Keys, "key", "keys"), looked))
	case c.Keys > 0:
		parts = append(parts, cli.CountOf(c.Keys, "key", "keys")+" in use")
	case c.Cut:
		parts = append(parts, "none of the "+looked)
	}
	if c.DeniedOf > 0 {
		parts = append(parts, deniedText(c))
	}
	doubt := ""
	if c.Keys == 0 && c.Denied == 0 {
		doubt = "; is the pattern right?"
	}
	o.Note("%s concerns %s%s", plan.selection.Text, strings.Join(parts, ", and "), doubt)
}

// deniedText is how many of the keys denied lately an override concerns. They need not be among those in use: a denial
// writes nothing.
func deniedText(c *operation.Concerned) string {
	return fmt.Sprintf("%d of the %s denied in the last %s, in use or not", c.Denied, output.Plural(c.DeniedOf, "key"),
		store.FormatPeriod(operation.DeniedLately))
}

// changesText is how many keys change in which way.
func changesText(c *operation.Concerned) string {
	var parts []string
	for _, count := range changeCounts(c) {
		if count.keys > 0 {
			parts = append(parts, output.Thousands(count.keys)+" "+count.word)
		}
	}
	return strings.Join(parts, ", ")
}

type changeCount struct {
	word string
	keys int64
}

// changeCounts are the counts of changes, in the order of the text.
func changeCounts(c *operation.Concerned) []changeCount {
	var counts []changeCount
	for _, change := range []operation.Change{operation.Loosened, operation.Tightened, operation.Mixed, operation.Unchanged,
		operation.Unknown} {
		counts = append(counts, changeCount{changeWord(change), c.Counts[change]})
	}
	return counts
}

// changeWord is the word of a change.
func changeWord(c operation.Change) string {
	switch c {
	case operation.Loosened:
		return "loosened"
	case operation.Tightened:
		return "tightened"
	case operation.Mixed:
		return "mixed"
	case operation.Unknown:
		return "unknown"
	default:
		return "unchanged"
	}
}

// ruleText is the limit or effect that decides a key, in a few words.
func ruleText(r *operation.Rule) string {
	switch {
	case r.Override != nil && r.Override.Effect == store.OverrideBlock:
		return "blocked"
	case r.Override != nil && r.Override.Effect == store.OverrideExempt:
		return "exempt"
	case r.Limit.Count == 0:
		return "unknown limit"
	}
	return r.Limit.String()
}

// concernedDocument is what an override would change, in JSON.
type concernedDocument struct {
	Keys      int64                `json:"keys"`
	Loosened  int64                `json:"loosened"`
	Tightened int64                `json:"tightened"`
	Mixed     int64                `json:"mixed"`
	Unchanged int64                `json:"unchanged"`
	Unknown   int64                `json:"unknown"`
	Complete  bool                 `json:"complete"`  // the scan saw all keys
	Denied    int                  `json:"denied"`    // how many of the denied_of keys denied in the last 10 minutes
	DeniedOf  int                  `json:"denied_of"` // how many keys were looked at
	Examples  []changedKeyDocument `json:"examples"`
	Winning   []winningDocument    `json:"winning"` // overrides that apply instead
}

type changedKeyDocument struct {
	Key    string `json:"key"`
	Name   string `json:"name"`
	Now    string `json:"now"`
	Then   string `json:"then"`
	Change string `json:"change"`
}

type winningDocument struct {
	ID   string `json:"id"`
	Keys int64  `json:"keys"`
}

// newConcernedDocument returns nil for nil.
func newConcernedDocument(c *operation.Concerned) *concernedDocument {
	if c == nil {
		return nil
	}
	d := &concernedDocument{Keys: c.Keys, Loosened: c.Counts[operation.Loosened], Tightened: c.Counts[operation.Tightened],
		Mixed: c.Counts[operation.Mixed], Unchanged: c.Counts[operation.Unchanged], Unknown: c.Counts[operation.Unknown],
		Complete: c.Incomplete == nil && !c.Cut, Denied: c.Denied, DeniedOf: c.DeniedOf,
		Examples: []changedKeyDocument{}, Winning: []winningDocument{}}
	for i := range c.Examples {
		e := &c.Examples[i]
		d.Examples = append(d.Examples, changedKeyDocument{e.Key.Subject, e.Key.Name, ruleText(&e.Now), ruleText(&e.Then),
			changeWord(e.Change)})
	}
	for _, w := range c.Winning {
		d.Winning = append(d.Winning, winningDocument{w.Override.ID, w.Keys})
	}
	return d
}

// previewAnswer is the answer of a dry run.
type previewAnswer struct{ overrideAnswer }

// Document implements output.Answer.
func (a *previewAnswer) Document() any {
	return struct {
		SchemaVersion int                `json:"schema_version"`
		DryRun        bool               `json:"dry_run"`
		Overrides     []any              `json:"overrides"`
		Concerned     *concernedDocument `json:"concerned"`
	}{output.SchemaVersion, true, a.overrideAnswer.Lines(), newConcernedDocument(a.concerned)}
}

// Lines implements output.Answer.
func (a *previewAnswer) Lines() []any { return []any{a.Document()} }

// Records implements output.Answer.
func (a *previewAnswer) Records() [][]string {
	records := [][]string{{"change", "keys"}}
	for _, count := range changeCounts(a.concerned) {
		records = append(records, []string{count.word, cli.Number(count.keys)})
	}
	return records
}

// Print implements output.Answer.
func (a *previewAnswer) Print(p *output.Printer) {
	changed := changesText(a.concerned)
	if changed != "" {
		changed = ": " + changed
	}
	keys := cli.CountOf(a.concerned.Keys, "key", "keys")
	if a.concerned.Cut {
		keys = "at least " + keys
	}
	fmt.Fprintf(p.Out, "would concern %s in use%s (dry run)\n", keys, changed)
}
