package override

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// applyAnswer is the answer of override apply: what it has changed, or would change.
type applyAnswer struct {
	dryRun, did bool
	owner       string
	difference  *operation.ApplyDifference
	steps       []operation.ApplyStep // that were made, or of a dry run would be
	now         time.Time
	place       string
}

// stepDocument is one change in JSON.
type stepDocument struct {
	Do       string            `json:"do"` // set, change or revoke
	Override operatorOverride  `json:"override"`
	Before   *operatorOverride `json:"before"` // what is changed; null for another step
}

// Document implements output.Answer.
func (a *applyAnswer) Document() any {
	documents := func(overrides []store.Override) []operatorOverride {
		list := []operatorOverride{}
		for i := range overrides {
			list = append(list, newOperatorOverride(&overrides[i]))
		}
		return list
	}
	steps := []stepDocument{}
	for i := range a.steps {
		step := &a.steps[i]
		d := stepDocument{Do: step.Do, Override: newOperatorOverride(&step.Override)}
		if step.Before != nil {
			before := newOperatorOverride(step.Before)
			d.Before = &before
		}
		steps = append(steps, d)
	}
	return struct {
		SchemaVersion int                `json:"schema_version"`
		Owner         string             `json:"owner"`
		DryRun        bool               `json:"dry_run"`
		Changed       bool               `json:"changed"` // something was changed, or of a dry run would be
		Steps         []stepDocument     `json:"steps"`
		Same          int                `json:"same"` // how many are in force as the file says
		Over          int                `json:"over"` // how many of the file have ended
		Kept          []operatorOverride `json:"kept"` // an operator has set them for longer
		Left          []operatorOverride `json:"left"` // no longer in the file, and without --prune in force
	}{output.SchemaVersion, a.owner, a.dryRun, len(a.steps) > 0, steps, a.difference.Same, a.difference.Over,
		documents(a.difference.Kept), documents(a.difference.Left)}
}

// Records implements output.Answer.
func (a *applyAnswer) Records() [][]string {
	records := [][]string{{"do", "id", "subject", "name", "attributes", "effect", "reason", "expires_at"}}
	add := func(do string, o *store.Override) {
		d := newOperatorOverride(o)
		records = append(records, []string{do, d.ID, orEmpty(d.Subject), d.Name, d.Attributes.Text(), allowance.Effect(o),
			d.Reason, d.ExpiresAt.Format(time.RFC3339)})
	}
	for i := range a.steps {
		add(a.steps[i].Do, &a.steps[i].Override)
	}
	for i := range a.difference.Kept {
		add("keep", &a.difference.Kept[i])
	}
	for i := range a.difference.Left {
		add("leave", &a.difference.Left[i])
	}
	return records
}

// stepLines has the changes for people.
func (a *applyAnswer) stepLines() (lines []string) {
	for i := range a.steps {
		step := &a.steps[i]
		lines = append(lines, stepWords(step.Do, a.did)+a.in()+"  "+a.stepSentence(step))
		if step.Before != nil {
			lines = append(lines, restIndent+asBefore(step.Before, a))
		}
	}
	return lines
}

// in names the context in which something was done.
func (a *applyAnswer) in() string {
	if a.place == "" {
		return ""
	}
	return " in " + output.Printable(a.place)
}

// Print implements output.Answer.
func (a *applyAnswer) Print(p *output.Printer) {
	for _, line := range a.stepLines() {
		p.Line("%s", line)
	}
	d := a.difference
	for i := range d.Kept {
		p.Line("kept%s  %s; the file has an earlier end", a.in(), sentence(&d.Kept[i], a.now))
	}
	for i := range d.Left {
		p.Line("left%s  %s; it is no longer in the file, and --prune ends it", a.in(), sentence(&d.Left[i], a.now))
	}
	text := "nothing to change"
	if n := len(a.steps); n > 0 {
		text = cli.CountOf(int64(n), "change", "changes")
	}
	if a.dryRun {
		text += " (dry run)"
	}
	text += fmt.Sprintf(", %d unchanged", d.Same)
	if d.Over > 0 {
		text += fmt.Sprintf(", %d over", d.Over)
	}
	p.Line("%s", text)
}
