package lab

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/show"
)

type reportOptions struct {
	*cli.Globals
	summaryFlags
	verdictFlags
	html  string
	apart time.Duration
}

// NewReportCmd makes limitctl report.
func NewReportCmd(global *cli.Globals) *cobra.Command {
	o := &reportOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "report FILE [FILE...]",
		Short: "Show a saved report, or those of several machines as one",
		Long: `Report shows a report that loadtest or simulate saved. Several reports, of
machines that ran a load test together with --start-at, are merged into one.
Report adds up counts, and timelines by the time of day. It merges histograms,
so quantiles are those of all requests and not averages. It checks the
thresholds against the whole.

Machines with the same --run used the same keys. Their answers are audited
together. If a machine's file is missing, only over-admission is judged. Of an
endpoint nobody knows when exactly it decided; the clocks of the machines must
not differ by more than --clocks-within.

The cost leaves out the server's own counts, because they cover all machines at
once. A warning names machines that did not run at the same time.

Exit codes: 0 pass, or inconclusive (1 with --strict); 1 a threshold is missed,
an audit failed (unless --no-fail), or too many requests got no decision; 2 a
file is not a report, or the reports are not of one test.`,
		Example: `  limitctl report run.json
  limitctl report run.json --html report.html --junit report.xml
  limitctl report machine-a.json machine-b.json -o csv`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("report takes a file that loadtest or simulate saved, and none was given")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("html") && o.html == "" {
				return cli.Usagef("--html is empty; give the file to write")
			}
			if o.apart < 0 || o.apart > time.Minute {
				return cli.Usagef("--clocks-within %s is out of range; it must be from 0 to 1m", o.apart)
			}
			if err := o.summaryFlags.check(cmd, o.Globals); err != nil {
				return err
			}
			return runReport(o, args)
		},
		ValidArgsFunction: completeReports,
	}
	o.summaryFlags.addFlags(cmd)
	o.verdictFlags.addFlags(cmd)
	cmd.Flags().StringVar(&o.html, "html", "", "also write the report as a page to `FILE`")
	cmd.Flags().DurationVar(&o.apart, "clocks-within", report.ClocksApart,
		"the clocks of machines that shared a --run on an endpoint differ by at most `DURATION`")
	cmd.RegisterFlagCompletionFunc("clocks-within", cobra.NoFileCompletions)
	return cmd
}

func runReport(o *reportOptions, paths []string) error {
	seen := map[string]bool{}
	all := make([]report.Named, len(paths))
	for i, path := range paths {
		if seen[path] {
			return cli.Usagef("%s was given twice; give each machine's report once", path)
		}
		seen[path] = true
		var err error
		if all[i], err = readReport(o.Globals, path); err != nil {
			return err
		}
	}
	d := all[0].Document
	if len(all) > 1 {
		var err error
		if d, err = report.MergeApart(all, o.apart); err != nil {
			return err
		}
	}
	if o.html != "" {
		if err := writePage(o.Globals, d, o.html); err != nil {
			return err
		}
	}
	if err := o.summaryFlags.write(o.Globals, show.Answer{Report: d}); err != nil {
		return err
	}
	if !o.summaryFlags.replacesAnswer() {
		if err := o.Print(show.Answer{Report: d}); err != nil {
			return err
		}
	}
	return o.exit(d)
}
