package setup

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/output"
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
each limit and each of its overrides, whether more or less is allowed.

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
		o.Note("nothing differs between %s", output.Printable(answer.between))
	}
	return nil
}

// compare compares two files, or the published version with one.
func (o *diffOptions) compare(ctx context.Context, args []string) (*diffAnswer, error) {
	files := make([]*config.Config, len(args))
	for i, path := range args {
		data, err := readConfig(path)
		if err != nil {
			return nil, err
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
	answer := &diffAnswer{SchemaVersion: output.SchemaVersion, Differences: config.Differences(before, after),
		between: before.PolicyFile + " and " + after.PolicyFile}
	return answer, o.replay(ctx, answer, before, after)
}

// diffAnswer is the differences between configurations.
type diffAnswer struct {
	SchemaVersion int                 `json:"schema_version"`
	Differences   []config.Difference `json:"differences"`
	// Traffic is what recorded traffic would have got, by policy.
	Traffic []traffic `json:"traffic,omitempty"`
	between string    // what was compared
}

// Items implements output.Answer.
func (a *diffAnswer) Items() any { return a.Differences }

// printDifferences prints what differs as a table. What is of no limit is of a policy, or of all of the file.
func printDifferences(p *output.Printer, differences []config.Difference) {
	if len(differences) == 0 {
		return
	}
	styles := map[config.Change]output.Style{config.Loosened: output.Calm, config.Tightened: output.AtEnd,
		config.Dropped: output.Near, config.Added: output.AtEnd}
	var rows [][]output.Cell
	for _, d := range differences {
		name := cmp.Or(d.Policy, "-")
		if d.Limit != "" {
			name += "/" + d.Limit
		}
		rows = append(rows, []output.Cell{{Text: name}, {Text: cmp.Or(d.When.Text(), "all others")},
			{Text: string(d.Change), Style: styles[d.Change]}, {Text: cmp.Or(d.Old, "-")}, {Text: cmp.Or(d.New, "-")}})
	}
	p.Table([]output.Column{{Header: "LIMIT", Shrinks: 10, Names: true}, {Header: "FOR", Shrinks: 10, Names: true},
		{Header: "CHANGE"}, {Header: "OLD"}, {Header: "NEW"}}, rows)
}

// Print implements output.Answer.
func (a *diffAnswer) Print(p *output.Printer) {
	printDifferences(p, a.Differences)
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
