package test

import (
	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/shell"
)

type reportOptions struct {
	*cli.Globals
	summaryFlags
	verdictFlags
	html    string
	against []string
	margin  string
}

// NewReportCmd makes limitctl report.
func NewReportCmd(global *cli.Globals) *cobra.Command {
	o := &reportOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "report FILE [--against BASE]...",
		Short: "Show a saved report, or what became worse since earlier ones",
		Long: `Report shows a report that loadtest or simulate saved. With --against it shows
how the report differs from one or more earlier reports of the same load, for
each limit that is in both, and what became worse.

A figure is worse if it is worse than in all of the BASEs, by more than the
margin. The audit and errors have no margin. If the load generator was the limit
in any of the reports, times and throughput are not judged. Costs and dropped
arrivals are only judged if --only names them.

Exit codes: 0 pass, or inconclusive (1 with --strict); 1 a threshold is missed,
an audit failed or a threshold could not be judged (unless --no-fail), or too
many requests got no decision; with --against, 1 something became worse; 2 a
file is not a report, or the reports are of different limits.`,
		Example: `  limitctl report run.json
  limitctl report run.json --html report.html --junit report.xml
  limitctl report new.json --against base.json
  limitctl report new.json --against base1.json --against base2.json --margin 25% -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("report takes one file that loadtest or simulate saved, and %d were given; compare files by --against",
					len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			if len(o.against) > 0 {
				return runComparison(o, args[0])
			}
			return runReport(o, args[0])
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	o.summaryFlags.addFlags(cmd)
	o.verdictFlags.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.html, "html", "", "also write the report as a page to `FILE`")
	flags.StringArrayVar(&o.against, "against", nil, "compare with the earlier report `BASE`; repeat it for several")
	flags.StringVar(&o.margin, "margin", "25%", "ignore differences up to `PERCENT` of the base, except in the audit and errors")
	cmd.MarkFlagFilename("html", "html")
	cmd.MarkFlagFilename("against", "json")
	return cmd
}

// check reports flags that do not belong together.
func (o *reportOptions) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if given("margin") && !given("against") {
		return cli.Usagef("--margin is about a comparison; add --against BASE")
	}
	for _, flag := range []string{"html", "no-fail", "strict"} {
		if given(flag) && given("against") {
			return cli.Usagef("--%s is about one report; leave out --against", flag)
		}
	}
	return o.summaryFlags.check(cmd, o.Globals)
}

func runReport(o *reportOptions, path string) error {
	d, err := readReport(o.Globals, path)
	if err != nil {
		return err
	}
	if o.html != "" {
		if err := writePage(o.Globals, d.Document, o.html); err != nil {
			return err
		}
	}
	if err := o.show(report.Answer{Report: d.Document, Verbose: o.Verbose}); err != nil {
		return err
	}
	return o.exit(d.Document)
}

func runComparison(o *reportOptions, path string) error {
	margin, ok := parsePercent(o.margin)
	if !ok {
		return cli.Usagef("--margin %q is not a percentage from 0%% to 1000%%; write one such as 10%%", o.margin)
	}
	latest, err := readReport(o.Globals, path)
	if err != nil {
		return err
	}
	bases := make([]report.Named, len(o.against))
	for i, base := range o.against {
		if bases[i], err = readReport(o.Globals, base); err != nil {
			return err
		}
	}
	comparison, err := report.Compare(bases, latest, margin)
	if err != nil {
		return err
	}
	if err := o.show(comparison); err != nil {
		return err
	}
	if comparison.Regressions > 0 {
		return cli.ErrDenied
	}
	return nil
}

// show writes the summaries of an answer, and prints it unless one of them replaces it.
func (o *reportOptions) show(answer interface {
	output.Answer
	Summary() *report.Summary
}) error {
	if err := o.summaryFlags.write(o.Globals, answer.Summary()); err != nil || o.replacesAnswer() {
		return err
	}
	return o.Print(answer)
}

// parsePercent reads "10%" as 0.1.
func parsePercent(text string) (share float64, ok bool) {
	share, percent, ok := cli.ParseShare(text)
	return share, percent && ok && share <= 10
}

// readReport reads a report from a file.
func readReport(g *cli.Globals, path string) (report.Named, error) {
	data, err := g.Env.ReadFile(path, report.MaxSize)
	if err != nil {
		return report.Named{}, cli.Usagef("the report %s cannot be read: %s; loadtest and simulate write one with --save",
			shell.Command(path), cli.Cause(err))
	}
	d, err := report.Read(path, data)
	return report.Named{Name: path, Document: d}, err
}
