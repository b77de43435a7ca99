package cmd

import (
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// resetAnswer is what a reset did.
type resetAnswer struct {
	SchemaVersion int   `json:"schema_version"`
	Matched       int64 `json:"matched"`
	Deleted       int64 `json:"deleted"`
	// Gone is how many were not there any more when they were to be deleted.
	Gone   int64 `json:"gone,omitempty"`
	DryRun bool  `json:"dry_run"`
	// Complete: all keys were looked at, and all that matched were dealt with.
	Complete bool `json:"complete"`
	// Missing are the masters whose keys could not be looked at, as far as that is known.
	Missing []string `json:"missing,omitempty"`
	// Unknown is of how many keys it is not known what became of them, at most.
	Unknown     int64  `json:"unknown,omitempty"`
	ToRemaining *int64 `json:"to_remaining,omitempty"`
	AtLeast     bool   `json:"at_least,omitempty"`
	// Adjusted is how many keys are as --to-remaining wants them. It is the sum of the next
	// three: how many gained units, lost units and were so already. In a dry run these three
	// are what would be.
	Adjusted  int64  `json:"adjusted,omitempty"`
	Gained    *int64 `json:"gained,omitempty"`
	Lost      *int64 `json:"lost,omitempty"`
	Unchanged *int64 `json:"unchanged,omitempty"`
	Backup    string `json:"backup,omitempty"`
	// Damaged is how many of the keys hold damaged records, which no backup keeps.
	Damaged int64 `json:"damaged,omitempty"`
	// Layouts are those of other limiters whose keys matched, Beyond is what a reset of these
	// does not reach, and Unsure are keys that look like another limiter's and were left.
	Layouts []string         `json:"layouts,omitempty"`
	Beyond  []beyondDocument `json:"beyond,omitempty"`
	Unsure  *unsureDocument  `json:"unsure,omitempty"`
	Undo    string           `json:"undo,omitempty"` // the command that brings it back
	effect  operation.Effect
}

// beyondDocument is what deleting the keys of a layout does not reach.
type beyondDocument struct {
	Layout string `json:"layout"`
	Text   string `json:"text"`
}

// allBeyond returns what deleting the keys of some layouts does not reach.
func allBeyond(layouts []string) (all []beyondDocument) {
	for _, name := range layouts {
		if text := cli.BeyondOf(name); text != "" {
			all = append(all, beyondDocument{name, text})
		}
	}
	return all
}

// newResetAnswer tells the result of a plan, which ended with err.
func newResetAnswer(plan *operation.ResetPlan, result *operation.ResetResult, err error) *resetAnswer {
	a := &resetAnswer{SchemaVersion: output.SchemaVersion, Matched: result.Matched, Deleted: result.Changed, Gone: result.Gone,
		DryRun: plan.DryRun, Complete: err == nil, Missing: result.Missing(), Unknown: result.Unknown,
		Damaged: result.Damaged, effect: result.Effect}
	a.Layouts, a.Beyond = result.Layouts, allBeyond(result.Layouts)
	if result.Unsure.Count > 0 {
		a.Unsure = newUnsureDocument(&result.Unsure)
	}
	if plan.Remaining == nil {
		return a
	}
	a.ToRemaining, a.AtLeast = &plan.Remaining.Units, plan.Remaining.AtLeast
	a.Gained, a.Lost, a.Unchanged = &a.effect.Gain, &a.effect.Lose, &a.effect.Stay
	if a.Deleted = 0; !plan.DryRun {
		a.Adjusted = a.effect.Gain + a.effect.Lose + a.effect.Stay
	}
	return a
}

// Document implements output.Answer.
func (a *resetAnswer) Document() any { return a }

// Lines implements output.Answer.
func (a *resetAnswer) Lines() []any { return []any{a} }

// Records implements output.Answer.
func (a *resetAnswer) Records() [][]string {
	return [][]string{{"matched", "deleted", "dry_run", "adjusted", "backup", "complete", "unknown", "gained", "lost", "unchanged"},
		{cli.Number(a.Matched), cli.Number(a.Deleted), fmt.Sprint(a.DryRun), cli.Number(a.Adjusted), a.Backup, fmt.Sprint(a.Complete),
			cli.Number(a.Unknown), cli.Number(a.effect.Gain), cli.Number(a.effect.Lose), cli.Number(a.effect.Stay)}}
}

// Print implements output.Answer.
func (a *resetAnswer) Print(p *output.Printer) {
	keys := func(n int64) string { return output.Plural(int(n), "key") }
	switch {
	case a.ToRemaining != nil && a.DryRun:
		fmt.Fprintf(p.Out, "would leave %s of %s (dry run)%s\n", a.remaining(), keys(a.Matched), after(a.effect.Future()))
	case a.ToRemaining != nil:
		fmt.Fprintf(p.Out, "left %s of %s%s\n", a.remaining(), keys(a.Adjusted), after(a.effect.Past()))
	case a.DryRun:
		fmt.Fprintf(p.Out, "would delete %s (dry run)\n", keys(a.Matched))
	default:
		gone := ""
		if a.Gone > 0 {
			gone = fmt.Sprintf(", %d gone meanwhile (lapsed, or deleted by somebody else)", a.Gone)
		}
		fmt.Fprintf(p.Out, "deleted %s%s\n", keys(a.Deleted), gone)
	}
}

// remaining is what is left of each key, in words.
func (a *resetAnswer) remaining() string {
	if a.AtLeast {
		return fmt.Sprintf("at least %d remaining", *a.ToRemaining)
	}
	return fmt.Sprintf("%d remaining", *a.ToRemaining)
}

// after puts a colon before words, if there are any.
func after(words string) string {
	if words == "" {
		return ""
	}
	return ": " + words
}
