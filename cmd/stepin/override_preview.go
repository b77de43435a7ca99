package stepin

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// concerned looks for the keys that an override concerns, for at most that long.
func (o *overrideSetOptions) concerned(ctx context.Context, runner *operation.Runner, plan *overridePlan, most time.Duration) (
	*operation.Concerned, error) {
	return runner.PreviewOverride(ctx, &operation.PreviewPlan{Override: plan.Override, Selection: plan.selection,
		Configured: plan.configured, Most: most}, &cli.Observer{Global: o.Globals})
}

// noteConcerned prints whom an override concerns. A misspelt pattern must not look like success.
func (o *overrideSetOptions) noteConcerned(ctx context.Context, plan *overridePlan, c *operation.Concerned, place string) {
	switch {
	case c.Keys == 0 && !c.Cut && c.Incomplete == nil:
		o.Note("nothing in use matches %s in %s yet; the override is for keys to come, too%s", plan.selection.Text, place,
			o.UnknownClient(ctx, plan.Override.Subjects))
	case c.Cut:
		o.Note("%s concerns %s of the %s of about %s keys that were looked at in %s", plan.selection.Text,
			output.Thousands(c.Keys), output.Thousands(c.Looked), output.Thousands(c.Total), place)
	default:
		o.Note("%s concerns %s in use in %s", plan.selection.Text, cli.CountOf(c.Keys, "key", "keys"), place)
	}
	pattern := plan.Override.Subjects.String()
	if subject, below := strings.CutSuffix(pattern, ":*"); below && !strings.ContainsAny(subject, `*?[\`) && subject != "" {
		if _, is := policy.ParseSubject(subject); is {
			o.Note("%s leaves %s", shell.Command(pattern), shell.Command(subject))
		}
	}
	if len(c.Values) > 0 {
		showShares(o.Globals, c.By, c.Values)
	}
	first := map[string]int64{} // other overrides that decide, and of how many keys
	for i := range c.Limits {
		if id := decidedBy(&c.Limits[i].Then); id != "" && id != plan.Override.ID {
			first[id] += c.Limits[i].Keys
		}
	}
	for _, id := range slices.Sorted(maps.Keys(first)) {
		o.Note("override %s comes first, so this one changes nothing for %s", id, cli.CountOf(first[id], "key", "keys"))
	}
	if c.Incomplete != nil {
		o.Note("warning: not all keys could be looked at: %s", cli.Message(c.Incomplete))
	}
}

// ruleText is what decides a key, in a few words.
func ruleText(r *operation.Rule) string {
	switch {
	case r.Override != nil && r.Override.Effect == store.OverrideBlock:
		return "blocked"
	case r.Override != nil && r.Override.Effect == store.OverrideExempt:
		return "exempt"
	case r.Limit.Count > 0:
		return r.Limit.String()
	case r.Override != nil:
		return allowance.Effect(r.Override)
	}
	return cli.NotKnown
}

// decidedBy names the override that decides, empty for none and for the one that is not set yet.
func decidedBy(r *operation.Rule) string {
	if r.Override == nil {
		return ""
	}
	return r.Override.ID
}

// concernedDocument is what an override would change, in JSON.
type concernedDocument struct {
	Keys     int64                    `json:"keys"`
	Complete bool                     `json:"complete"` // the scan saw all keys
	Limits   []concernedLimitDocument `json:"limits"`
}

type concernedLimitDocument struct {
	Name string `json:"name"`
	Now  string `json:"now"`
	Then string `json:"then"`
	Keys int64  `json:"keys"`
	// Override is the ID of another override that applies instead, which comes first.
	Override string `json:"override,omitempty"`
}

// newConcernedDocument returns nil for nil.
func newConcernedDocument(c *operation.Concerned) *concernedDocument {
	if c == nil {
		return nil
	}
	d := &concernedDocument{Keys: c.Keys, Complete: c.Incomplete == nil && !c.Cut, Limits: []concernedLimitDocument{}}
	for i := range c.Limits {
		l := &c.Limits[i]
		d.Limits = append(d.Limits, concernedLimitDocument{l.Name, ruleText(&l.Now), ruleText(&l.Then), l.Keys, decidedBy(&l.Then)})
	}
	return d
}

// previewAnswer is the answer of a dry run.
type previewAnswer struct {
	override  *store.Override
	concerned *operation.Concerned
}

// Document implements output.Answer.
func (a *previewAnswer) Document() any {
	return struct {
		SchemaVersion int                  `json:"schema_version"`
		DryRun        bool                 `json:"dry_run"`
		Overrides     []allowance.Document `json:"overrides"`
		Concerned     *concernedDocument   `json:"concerned"`
	}{output.SchemaVersion, true, []allowance.Document{allowance.NewDocument(a.override)}, newConcernedDocument(a.concerned)}
}

// Records implements output.Answer.
func (a *previewAnswer) Records() [][]string {
	return output.Rows(newConcernedDocument(a.concerned).Limits)
}

// mostPreviewed is how many rows the table of a preview has.
const mostPreviewed = 20

// Print implements output.Answer.
func (a *previewAnswer) Print(p *output.Printer) {
	columns := []output.Column{{Header: "SUBJECT", Shrinks: 12, Drops: 1}, {Header: "LIMIT", Shrinks: 12}, {Header: "NOW", Shrinks: 12},
		{Header: "", Drops: 2}, {Header: "THEN", Shrinks: 12}, {Header: "KEYS", Right: true}, {Header: "DECIDED BY", Shrinks: 12}}
	var rows [][]output.Cell
	whom, shown := allowance.Whom(a.override), int64(0)
	for i := range a.concerned.Limits[:min(len(a.concerned.Limits), mostPreviewed)] {
		l := &a.concerned.Limits[i]
		by := "this override"
		if id := decidedBy(&l.Then); id != "" {
			by = "override " + id + ", which comes first"
		}
		rows = append(rows, []output.Cell{{Text: whom}, {Text: l.Name}, {Text: ruleText(&l.Now)}, {Text: "→"},
			{Text: ruleText(&l.Then), Style: effectStyle(a.override)}, {Text: output.Thousands(l.Keys)}, {Text: by}})
		shown += l.Keys
	}
	if len(rows) > 0 {
		p.Table(columns, rows)
	}
	if more := a.concerned.Keys - shown; more > 0 {
		p.Line("… and %s more", cli.CountOf(more, "key", "keys"))
	}
	if len(rows) == 0 {
		p.Line("no key in use would change")
	}
}
