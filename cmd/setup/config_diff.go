package setup

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// diffOptions are those of diff.
type diffOptions struct {
	*cli.Globals
	trace string
}

func newDiffCmd(global *cli.Globals) *cobra.Command {
	o := &diffOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "diff [OLD-FILE] NEW-FILE",
		Short: "Show for whom limits are loosened, tightened or dropped",
		Long: `Diff compares two configuration files, or the published version with one: for
each limit and each of its overrides, whether more or less is allowed. The keys
in use whose limit would change are in config publish --dry-run.

A limit is loosened if more is allowed at once or in the long run and neither is
less, and changed if one is more and the other less, or the algorithm differs.

With --trace it also shows how many requests of recorded traffic each policy
that differs would have denied. The exit code is 0 if nothing differs, else 1.`,
		Example: `  limitctl config diff limitctl.yaml new.yaml
  limitctl config diff limitctl.yaml new.yaml -o json
  limitctl config diff limitctl.yaml new.yaml --trace requests.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return cli.Usagef("diff takes one file, or two: an old one and a new one")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.Flags().StringVar(&o.trace, "trace", "",
		"also show what the recorded traffic in `FILE` would have got, as simulate does")
	return cmd
}

func (o *diffOptions) run(ctx context.Context, args []string) error {
	answer, err := o.compare(ctx, args)
	if err != nil {
		return err
	}
	if err := o.Print(answer); err != nil {
		return err
	}
	if len(answer.Differences)+len(answer.Traffic) > 0 {
		return cli.ErrDenied
	}
	if !o.Quiet {
		o.Note("nothing differs")
	}
	return nil
}

// compare compares two files, or the published version with one.
func (o *diffOptions) compare(ctx context.Context, args []string) (*diffAnswer, error) {
	files := make([]*config.Config, len(args))
	for i, path := range args {
		data, err := cli.ReadConfig(path)
		if err != nil {
			return nil, cli.Usagef("the file %s cannot be read: %s", shell.Command(path), cli.Cause(err))
		}
		if files[i], err = config.Parse(path, data, nil); err != nil {
			return nil, err
		}
	}
	before, after := files[0], files[len(files)-1]
	if len(files) == 1 {
		p, err := openToRead(ctx, o.Globals)
		if err != nil {
			return nil, err
		}
		defer p.backend.Close()
		if _, err = p.state.InForce(); err == nil {
			_, before, err = p.inForce(ctx, o.Globals)
		}
		if err != nil {
			return nil, err
		}
		before.Prefix = after.Prefix
	}
	answer := &diffAnswer{SchemaVersion: output.SchemaVersion, Differences: differencesOf(before, after)}
	return answer, o.replay(ctx, answer, before, after)
}

// diffRow is a difference, and the number of its keys if keys were compared.
type diffRow struct {
	config.Difference
	Keys int64 `json:"keys,omitempty"`
	// Example is the subject of a key, that which is over the new limit by most.
	Example string `json:"example,omitempty"`
	// Over is how many keys have more in use than the new limit allows.
	Over   int64 `json:"over,omitempty"`
	excess int64 // how much more the example has; 0 if no key is over
}

// add counts a key under each of the limits that it may get. It is over if it is so under all of them, which differ if
// they depend on attributes that the key does not hold. The example is the subject that is over by most, else the
// first.
func (r *diffRow) add(e *admin.Entry, candidates []policy.Candidate, override *store.Override) {
	r.Keys++
	excess := int64(0)
	decides := override != nil && (override.Effect == store.OverrideBlock || override.Effect == store.OverrideExempt)
	if len(candidates) > 0 && !decides && e.UsedKnown() {
		excess = e.Used
		for _, candidate := range candidates {
			limit := override.Apply(candidate.Limit)
			excess = min(excess, max(0, e.Used-limit.Capacity()))
		}
	}
	if excess > 0 {
		r.Over++
	}
	if r.Keys == 1 || excess > r.excess || excess == r.excess && e.Key.Subject < r.Example {
		r.Example, r.excess = e.Key.Subject, excess
	}
}

// name names what differs: the limit of a policy, the policy, or - for all of the file.
func (r *diffRow) name() string {
	if r.Limit != "" {
		return r.Policy + "/" + r.Limit
	}
	return cmp.Or(r.Policy, "-")
}

// keyDifferencesOf compares the keys in use in an open store with a configuration. Their limits now are those of the
// configuration in force, and by which they were charged last where that has none.
func keyDifferencesOf(ctx context.Context, g *cli.Globals, backend connect.Store, inForce, c *config.Config) (
	[]diffRow, error) {
	overrides, withoutOverrides := cli.OverridesOf(ctx, g, backend)
	limits, now := allowance.NewConfiguredLimits(c.Policies), allowance.NewConfiguredLimits(inForce.Policies)
	everything, err := store.ParsePattern("*")
	if err != nil {
		return nil, err
	}
	selection := operation.Selection{Text: "'*'", Query: admin.Query{Subjects: everything}}
	selection.Query.States = len(overrides.All()) > 0 // which say when the last request was
	type group struct{ policy, limit, old, new string }
	places := map[group]int{}
	rows := []diffRow{}
	found, err := cli.Scan(ctx, g, backend, &selection, func(e *admin.Entry, foreign error) error {
		parts, isPolicys := policy.ParseKey(e.Key)
		if foreign != nil || !isPolicys || !e.LimitKnown() {
			return nil
		}
		override := overrides.For(e.Key)
		was, applied := e.Limit, override // the override that is in it
		if limit, known := now.Of(e.Key, e.Limit, override); known {
			was = override.Apply(limit)
		} else if override != nil && (e.State == nil || e.State.Time < store.InstantOf(override.CreatedAt)) {
			applied = nil
		}
		d := config.Difference{Policy: parts.Policy, Limit: parts.Limit, Change: config.Dropped, Old: was.String()}
		var candidates []policy.Candidate
		if limits[[2]string{parts.Policy, parts.Limit}] != nil {
			if !limits.HasDrifted(e.Key, was, override) {
				return nil
			}
			candidates = limits.Candidates(e.Key)
			d.Change, d.New = becomes(was, candidates, applied)
		}
		name := group{d.Policy, d.Limit, d.Old, d.New}
		place, known := places[name]
		if !known {
			place = len(rows)
			places[name] = place
			rows = append(rows, diffRow{Difference: d})
		}
		rows[place].add(e, candidates, override)
		return nil
	})
	slices.SortFunc(rows, func(a, b diffRow) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Limit, b.Limit), cmp.Compare(b.Keys, a.Keys),
			cmp.Compare(a.Old, b.Old))
	})
	if err == nil { // else that error reports it
		cli.WarnOfOverrides(g, withoutOverrides)
	}
	return rows, found.WithProgress(err)
}

// becomes is what a limit becomes: one of several if that depends on attributes which the key does not hold. override
// is the one that is in the old limit, and will be in the new one; nil for none.
func becomes(old store.Limit, candidates []policy.Candidate, override *store.Override) (
	change config.Change, text string) {
	for i, candidate := range candidates {
		limit := override.Apply(candidate.Limit)
		one, _ := config.Compare(old, limit)
		if i > 0 {
			text += " or "
		}
		text += limit.String()
		if change == "" || change == one {
			change = one
		} else {
			change = config.Changed
		}
	}
	return change, text
}

// diffAnswer is the differences between configurations, or between keys and a configuration.
type diffAnswer struct {
	SchemaVersion int       `json:"schema_version"`
	Differences   []diffRow `json:"differences"`
	// Traffic is what recorded traffic would have got, by policy.
	Traffic []traffic `json:"traffic,omitempty"`
	ofKeys  bool
}

// differencesOf are those of two configurations.
func differencesOf(before, after *config.Config) []diffRow {
	rows := []diffRow{}
	for _, d := range config.Differences(before, after) {
		rows = append(rows, diffRow{Difference: d})
	}
	return rows
}

// Items implements output.Answer.
func (a *diffAnswer) Items() any { return a.Differences }

// table returns what differs as a table.
func (a *diffAnswer) table() (columns []output.Column, rows [][]output.Cell) {
	columns = []output.Column{{Header: "LIMIT", Shrinks: 10, Names: true}, {Header: "FOR", Shrinks: 10, Names: true},
		{Header: "CHANGE"}, {Header: "OLD"}, {Header: "NEW"}}
	if a.ofKeys {
		columns[1] = output.Column{Header: "KEYS", Right: true}
		columns = append(columns, output.Column{Header: "OVER", Right: true},
			output.Column{Header: "EXAMPLE", Shrinks: 10, Drops: 1})
	}
	styles := map[config.Change]output.Style{config.Loosened: output.Calm, config.Tightened: output.AtEnd,
		config.Dropped: output.Near, config.Added: output.AtEnd}
	for i := range a.Differences {
		r := &a.Differences[i]
		row := []output.Cell{{Text: r.name()}, {Text: cmp.Or(r.When.Text(), "all others")},
			{Text: string(r.Change), Style: styles[r.Change]}, {Text: cmp.Or(r.Old, "-")}, {Text: cmp.Or(r.New, "-")}}
		if a.ofKeys {
			row[1] = output.Cell{Text: cli.Number(r.Keys)}
			over := output.Cell{Text: cli.Number(r.Over)}
			if r.New == "" {
				over.Text = "-"
			}
			if r.Over > 0 {
				over.Style = output.AtEnd
			}
			row = append(row, over, output.Cell{Text: r.Example})
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// Print implements output.Answer.
func (a *diffAnswer) Print(p *output.Printer) {
	if len(a.Differences) > 0 {
		p.Table(a.table())
	}
	if len(a.Traffic) == 0 {
		return
	}
	p.Line("recorded traffic:")
	p.Table(trafficTable(a.Traffic))
	for _, t := range a.Traffic {
		if t.Error != "" {
			p.Line("%s was not tried: %s", output.Printable(t.Policy), output.Printable(t.Error))
		}
	}
}
