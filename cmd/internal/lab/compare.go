package lab

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/compare"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/texts"
)

type compareOptions struct {
	*cli.Globals
	summaryFlags
	margin string
	only   []string
}

// NewCompareCmd makes limitctl compare.
func NewCompareCmd(global *cli.Globals) *cobra.Command {
	o := &compareOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "compare BASE [BASE...] NEW",
		Short: "Compare saved reports, and say what became worse",
		Long: `Compare shows how the report NEW differs from one or more earlier reports of the
same load, for each limit that is in both, and what became worse. The reports
are those that loadtest or simulate saved.

Give several BASE reports if you can: the differences between them show how much
a run varies by chance. A difference counts if it is larger than a margin
(latencies 10% or 20 µs, throughput 5%, costs 10%, fairness 5%, the share of
dropped arrivals 0.1 percentage points; --margin replaces the percentages),
larger than the differences between the base reports, and larger than the
variation within the runs: each run is cut into ten parts, and the parts of both
must not overlap. If the lag of the generator shows that the machine was busier,
times and costs are not judged. Commands and bytes may grow as much as the round
trips of callers that shared them; with one BASE, round trips may double. What
the server counted is not judged if others used it.

The audit has no margin: one more unit over- or under-admitted, a worst window
that is greater and above 1.00 × the limit, or more errors are a regression. The
shares of allowed requests and of denied keys are shown, but not judged. With
--only, only the named figures are judged.

Exit codes: 0 no regression; 1 a regression; 2 a file is not a report, or the
reports have no limit in common.`,
		Example: `  limitctl compare base.json new.json
  limitctl compare base1.json base2.json base3.json new.json
  limitctl compare base.json new.json --only p99,errors,over_admitted --margin 25% -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.Usagef("compare takes two reports or more, BASE and NEW, and %d was given", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			options := compare.Options{Margins: compare.DefaultMargins()}
			if cmd.Flags().Changed("margin") {
				share, ok := parsePercent(o.margin)
				if !ok {
					return cli.Usagef("--margin %q is not a percentage from 0%% to 1000%%; write one such as 10%%", o.margin)
				}
				options.Margins = compare.OneMargin(share)
			}
			var err error
			if options.Only, err = o.parseOnly(); err != nil {
				return err
			}
			if err := o.summaryFlags.check(cmd, o.Globals); err != nil {
				return err
			}
			return runCompare(o, args, options)
		},
		ValidArgsFunction: completeReports,
	}
	cmd.Flags().StringVar(&o.margin, "margin", "", "ignore relative differences up to `PERCENT`, such as 10%, except in the audit")
	cmd.Flags().StringSliceVar(&o.only, "only", nil, "judge only these `METRICS`, such as p99,errors,over_admitted")
	cmd.RegisterFlagCompletionFunc("margin", cobra.NoFileCompletions)
	cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(compare.Metrics(), cobra.ShellCompDirectiveNoFileComp))
	o.summaryFlags.addFlags(cmd)
	return cmd
}

// parseOnly reads the names of the judged metrics. The units at the ends of their JSON names are optional.
func (o *compareOptions) parseOnly() ([]string, error) {
	var only []string
	metrics := compare.Metrics()
	for _, name := range o.only {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(name), "_us"), "_percent")
		if !slices.Contains(metrics, name) {
			hint := "it is one of " + strings.Join(metrics, " ")
			if near := texts.Nearest(name, metrics, 2); near != "" {
				hint = "did you mean " + near + "?"
			}
			return nil, cli.Usagef("--only %s: no such metric is judged; %s", shell.Command(name), hint)
		}
		only = append(only, name)
	}
	return only, nil
}

// completeReports offers files of JSON.
func completeReports(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
}

func runCompare(o *compareOptions, paths []string, options compare.Options) error {
	all := make([]report.Named, len(paths))
	for i, path := range paths {
		var err error
		if all[i], err = readReport(o.Globals, path); err != nil {
			return err
		}
	}
	last := len(all) - 1
	comparison, err := compare.Reports(all[:last], all[last], options)
	if err != nil {
		return err
	}
	if err := o.summaryFlags.write(o.Globals, comparison); err != nil {
		return err
	}
	if !o.summaryFlags.replacesAnswer() {
		if err := o.Print(comparison); err != nil {
			return err
		}
	}
	if comparison.Regressions > 0 {
		return cli.ErrDenied
	}
	return nil
}

// parsePercent reads "10%" as 0.1.
func parsePercent(text string) (share float64, ok bool) {
	digits, percent := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(digits, 64)
	return value / 100, percent && err == nil && value >= 0 && value <= 1000
}

// readReport reads a report from a file.
func readReport(g *cli.Globals, path string) (report.Named, error) {
	data, err := g.Env.ReadFile(path, report.MaxSize+report.MaxAnswers)
	if err != nil {
		return report.Named{}, cli.Usagef("the report %s cannot be read: %s; loadtest and simulate write one with --save",
			shell.Command(path), cli.Cause(err))
	}
	d, err := report.Read(path, data)
	return report.Named{Name: path, Document: d}, err
}
