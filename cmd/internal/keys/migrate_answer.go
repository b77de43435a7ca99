package keys

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// migrateAnswer is what a migration did, or in a dry run would do.
type migrateAnswer struct {
	SchemaVersion int `json:"schema_version"`
	// Matched counts the selected old limits. Carried counts those whose usage the new limit has now, or whose new
	// limit is used up. Carried is the sum of Raised, whose usage grew, and Already, whose usage was there before.
	Matched int64 `json:"matched"`
	Carried int64 `json:"carried"`
	Raised  int64 `json:"raised"`  // those whose usage grew
	Already int64 `json:"already"` // those whose usage was there before
	// Filled counts the old limits whose usage exceeds the new limit, and Shared those that share their new limit with
	// another one.
	Filled int64 `json:"filled"`
	Shared int64 `json:"shared"` // those that share their new limit with another one
	// These were not carried over.
	UsageUnknown int64 `json:"usage_unknown"`
	Unfit        int64 `json:"unfit"`      // limitctl cannot have such a key
	Occupied     int64 `json:"occupied"`   // the key holds what limitctl did not write
	Unreadable   int64 `json:"unreadable"` // not what the layout writes
	// Unsure are keys that look like another limiter's. They are not among those that matched.
	Unsure *unsureDocument `json:"unsure,omitempty"`
	// Stuck is how many old limits have usage that never comes back by itself.
	Stuck  int64 `json:"stuck"`
	DryRun bool  `json:"dry_run"`
	// Complete: the scan saw all keys, and all that matched were carried over.
	Complete bool `json:"complete"`
	// Missing are the masters that could not be scanned, if known.
	Missing []string `json:"missing,omitempty"`
	// Unknown is the most limits whose outcome is unknown.
	Unknown  int64  `json:"unknown,omitempty"`
	Backup   string `json:"backup,omitempty"`
	Undo     string `json:"undo,omitempty"` // the command that takes the usage away again
	ResetOld string `json:"reset_old"`      // the command that deletes the old keys
	doctor   string // the command that looks for what is wrong with them
}

// newMigrateAnswer is the answer for the result of a plan, which ended with err.
func newMigrateAnswer(plan *operation.MigratePlan, result *operation.MigrateResult, err error) *migrateAnswer {
	a := &migrateAnswer{SchemaVersion: output.SchemaVersion, Matched: result.Matched, Carried: result.Carried(),
		Raised: result.Raised, Already: result.Already, Filled: result.Filled, Shared: result.Shared,
		UsageUnknown: result.UsageUnknown, Unfit: result.Unfit, Occupied: result.Occupied, Unreadable: result.Unreadable,
		Stuck: result.Stuck, DryRun: plan.DryRun,
		Complete: err == nil, Missing: result.Missing(), Unknown: result.Unknown}
	if result.Unsure.Count > 0 {
		a.Unsure = newUnsureDocument(&result.Unsure)
	}
	return a
}

// Records implements output.Answer.
func (a *migrateAnswer) Records() [][]string {
	unsure := int64(0)
	if a.Unsure != nil {
		unsure = a.Unsure.Count
	}
	return [][]string{{"matched", "carried", "raised", "already", "filled", "shared", "usage_unknown", "unfit", "occupied", "unreadable",
		"unsure", "stuck", "dry_run", "complete", "unknown", "backup"},
		{cli.Number(a.Matched), cli.Number(a.Carried), cli.Number(a.Raised), cli.Number(a.Already), cli.Number(a.Filled),
			cli.Number(a.Shared),
			cli.Number(a.UsageUnknown), cli.Number(a.Unfit), cli.Number(a.Occupied), cli.Number(a.Unreadable), cli.Number(unsure),
			cli.Number(a.Stuck),
			fmt.Sprint(a.DryRun), fmt.Sprint(a.Complete), cli.Number(a.Unknown), a.Backup}}
}

// Print implements output.Answer.
func (a *migrateAnswer) Print(p *output.Printer) {
	verb, dryRun, raised, already := "carried over", "", cli.CountOf(a.Raised, "has more in use now", "have more in use now"),
		cli.CountOf(a.Already, "had as much in use", "had as much in use")
	if a.DryRun {
		verb, dryRun, raised, already = "would carry over", " (dry run)", cli.CountOf(a.Raised, "gets more in use", "get more in use"),
			cli.CountOf(a.Already, "has as much in use", "have as much in use")
	}
	var parts []string
	if a.Raised > 0 {
		parts = append(parts, raised)
	}
	if a.Already > 0 {
		parts = append(parts, already)
	}
	fmt.Fprintf(p.Out, "%s %s%s%s\n", verb, a.share(), dryRun, after(strings.Join(parts, ", ")))
}

// share is how many of the matched limits were carried over.
func (a *migrateAnswer) share() string {
	if a.Carried == a.Matched {
		return output.Plural(int(a.Matched), "old limit")
	}
	return fmt.Sprintf("%s of %s", cli.Number(a.Carried), output.Plural(int(a.Matched), "old limit"))
}
