package cmd

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/report"
)

type compareOptions struct {
	*globalOptions
	margin  string
	margins report.Margins
}

func newCompareCmd(global *globalOptions) *cobra.Command {
	o := &compareOptions{globalOptions: global, margins: report.DefaultMargins()}
	cmd := &cobra.Command{
		Use:   "compare BASE NEW",
		Short: "Compare two saved reports, and say what became worse",
		Long: `Compare shows how a report that loadtest or simulate saved differs from an
earlier one, for each limit that is in both, and what became worse.

Differences up to a margin do not count: latencies 10% or 20 µs, throughput 5%,
costs 10%, fairness 5%, the share of dropped arrivals 0.1 percentage points.
--margin replaces the percentages. If both reports have histograms (those of
--save do), a quantile must also differ by more than chance explains for that
many requests. The audit has no margin: one unit more over- or under-admitted,
or a worst window that is greater and above 1.00 × the limit, is a regression,
and so are more errors. The shares of requests allowed and of keys denied are
shown, but not judged.

Exit codes: 0 no regression; 1 a regression; 2 a file is not a report, or the
two reports have no limit in common.`,
		Example: `  limitctl compare base.json new.json
  limitctl compare base.json new.json --margin 25% -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 2:
				return nil
			case 1:
				return usagef("compare takes two reports, BASE and NEW, and 1 was given")
			}
			return usagef("compare takes two reports, BASE and NEW, and %d were given", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("margin") {
				share, ok := parsePercent(o.margin)
				if !ok {
					return usagef("--margin %q is not a percentage from 0%% to 1000%%; write one such as 10%%", o.margin)
				}
				o.margins = report.OneMargin(share)
			}
			return runCompare(o, args[0], args[1])
		},
		ValidArgsFunction: completeReports,
	}
	cmd.Flags().StringVar(&o.margin, "margin", "", "call no relative difference up to `PERCENT` a difference, such as 10%, but for "+
		"the audit's")
	return cmd
}

// completeReports offers files of JSON.
func completeReports(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
}

func runCompare(o *compareOptions, base, latest string) error {
	was, err := o.readReport(base)
	if err != nil {
		return err
	}
	is, err := o.readReport(latest)
	if err != nil {
		return err
	}
	comparison, err := report.Compare(was, is, o.margins)
	if err != nil {
		return err
	}
	if err := o.print(comparison); err != nil {
		return err
	}
	if comparison.Regressions > 0 {
		return errDenied
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
func (g *globalOptions) readReport(path string) (report.Named, error) {
	data, err := g.env.ReadFile(path, report.MaxSize)
	if err != nil {
		return report.Named{}, usagef("the report cannot be read: %s", err)
	}
	d, err := report.Read(path, data)
	return report.Named{Name: path, Document: d}, err
}
