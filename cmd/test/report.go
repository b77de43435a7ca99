package test

import (
	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/shell"
)

type reportOptions struct {
	*cli.Globals
	reporting
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
in any of the reports, times and throughput are not compared.

Exit codes: 0 pass, or inconclusive (1 with --strict); 1 a threshold is missed,
an audit failed or a threshold could not be judged (unless --no-fail), too many
requests got no decision, or the run was interrupted; with --against, 1
something became worse; 2 a file is not a report, or the reports are of
different limits or an interrupted run.`,
		Example: `  limitctl report run.json
  limitctl report run.json --html report.html --junit report.xml
  limitctl report new.json --against base.json
  limitctl report new.json --against base1.json --against base2.json --margin 25% -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("report takes one file that loadtest or simulate saved, and %d were given; compare "+
					"files by --against",
					len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	o.flags("markdown", "junit", "no-fail", "strict", "html")(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&o.against, "against", nil, "compare with the earlier report `BASE`; repeat it for several")
	flags.StringVar(&o.margin, "margin", "25%",
		"ignore differences up to `PERCENT` of the base, except in the audit and errors")
	cmd.MarkFlagFilename("against", "json")
	return cmd
}

func (o *reportOptions) run(cmd *cobra.Command, path string) error {
	given := cmd.Flags().Changed
	if given("margin") && !given("against") {
		return cli.Usagef("--margin is about a comparison; add --against BASE")
	}
	for _, flag := range []string{"html", "no-fail", "strict"} {
		if given(flag) && given("against") {
			return cli.Usagef("--%s is about one report; leave out --against", flag)
		}
	}
	if err := o.parse(cmd, o.Globals, report.LoadTest, append(o.against, path)...); err != nil {
		return err
	}
	latest, err := readReport(path)
	if err != nil {
		return err
	}
	if len(o.against) > 0 {
		return o.compare(latest)
	}
	if err := o.write(o.Globals, latest.Document); err != nil {
		return err
	}
	if err := o.print(o.Globals, report.Answer{Report: latest.Document, Verbose: o.Verbose}); err != nil {
		return err
	}
	return o.exit(latest.Document)
}

// compare compares a report with those that --against names.
func (o *reportOptions) compare(latest report.Named) error {
	margin, ok := parsePercent(o.margin)
	if !ok {
		return cli.Usagef("--margin %q is not a percentage from 0%% to 1000%%; write one such as 10%%", o.margin)
	}
	bases := make([]report.Named, len(o.against))
	for i, base := range o.against {
		var err error
		if bases[i], err = readReport(base); err != nil {
			return err
		}
	}
	comparison, err := report.Compare(bases, latest, margin)
	if err != nil {
		return err
	}
	if err := o.summarize(o.Globals, comparison.Summary()); err != nil {
		return err
	}
	if err := o.print(o.Globals, comparison); err != nil {
		return err
	}
	if comparison.Regressions > 0 {
		return cli.ErrDenied
	}
	return nil
}

// readReport reads a report from a file.
func readReport(path string) (report.Named, error) {
	data, err := files.Read(path, report.MaxSize)
	if err != nil {
		return report.Named{}, cli.Usagef(
			"the report %s cannot be read: %s; loadtest and simulate write one with --save",
			shell.Command(path), cli.Cause(err))
	}
	d, err := report.Read(path, data)
	return report.Named{Name: path, Document: d}, err
}
