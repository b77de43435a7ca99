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
		Long: `Compare shows how the last report, NEW, differs from one or more earlier ones of
the same load, for each limit that is in both, and what became worse. All are
reports that loadtest or simulate saved.

Give several BASE reports if you can: how much they differ from one another is
how much a run differs by chance. A difference counts if it is beyond a margin
(latencies 10% or 20 µs, throughput 5%, costs 10%, fairness 5%, the share of
dropped arrivals 0.1 percentage points; --margin replaces the percentages),
beyond what differs between the base reports, and beyond what differs within
the runs: cut into ten parts, their parts must lie apart. If the generator's own
lag says that the machine was busier, times and costs are not judged.

The audit has no margin: one unit more over- or under-admitted, or a worst
window that is greater and above 1.00 × the limit, is a regression, and so are
more errors. The shares of requests allowed and of keys denied are shown, but
not judged. With --only, nothing but what it names is judged.

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
	cmd.Flags().StringVar(&o.margin, "margin", "", "call no relative difference up to `PERCENT` a difference, such as 10%, but for "+
		"the audit's")
	cmd.Flags().StringSliceVar(&o.only, "only", nil, "judge nothing but these `METRICS`, such as p99,errors,over_admitted")
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
		return report.Named{}, cli.Usagef("the report cannot be read: %s", err)
	}
	d, err := report.Read(path, data)
	return report.Named{Name: path, Document: d}, err
}
