package cmd

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/show"
)

type reportOptions struct {
	*globalOptions
	summaryFlags
	verdictFlags
	html string
}

func newReportCmd(global *globalOptions) *cobra.Command {
	o := &reportOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "report FILE [FILE...]",
		Short: "Show a saved report, or those of several machines as one",
		Long: `Report shows a report that loadtest or simulate saved. Given several, it merges
them into one: the reports of machines that ran a load test together, started
by --start-at. It adds up counts, and timelines by the time of day. It merges
histograms, so the quantiles are those of all requests and not averages. The
thresholds are checked against the whole.

Machines that named the same --run drove the same keys. Their answers are
audited together. If a machine's file is missing, only over-admission is judged.

The cost leaves out what the server counts, because that covers all machines at
once. A warning names machines that did not work at the same time.

Exit codes: 0 pass; 1 a threshold is missed, or an audit failed (unless
--no-fail); 2 a file is not a report, or the reports are not of one test.`,
		Example: `  limitctl report run.json
  limitctl report run.json --html report.html --junit report.xml
  limitctl report machine-a.json machine-b.json -o csv`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("report takes a file that loadtest or simulate saved, and none was given")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("html") && o.html == "" {
				return usagef("--html is empty; give the file to write")
			}
			if err := o.summaryFlags.check(cmd, o.globalOptions); err != nil {
				return err
			}
			return runReport(o, args)
		},
		ValidArgsFunction: completeReports,
	}
	o.summaryFlags.addFlags(cmd)
	o.verdictFlags.addFlags(cmd)
	cmd.Flags().StringVar(&o.html, "html", "", "write the report as a page to `FILE`, too")
	return cmd
}

func runReport(o *reportOptions, paths []string) error {
	seen := map[string]bool{}
	all := make([]report.Named, len(paths))
	for i, path := range paths {
		if seen[path] {
			return usagef("%s was given twice; give each machine's report once", path)
		}
		seen[path] = true
		var err error
		if all[i], err = o.readReport(path); err != nil {
			return err
		}
	}
	d := all[0].Document
	if len(all) > 1 {
		var err error
		if d, err = report.Merge(all); err != nil {
			return err
		}
	}
	if o.html != "" {
		if err := o.writePage(d, o.html); err != nil {
			return err
		}
	}
	if err := o.summaryFlags.write(o.globalOptions, show.Answer{Report: d}); err != nil {
		return err
	}
	if !o.summaryFlags.replacesAnswer() {
		if err := o.print(show.Answer{Report: d}); err != nil {
			return err
		}
	}
	return o.exit(d)
}

// writePage writes a report as HTML.
func (g *globalOptions) writePage(d *report.Document, path string) error {
	var page bytes.Buffer
	if err := (show.Answer{Report: d}).HTML(&page); err != nil {
		return err
	}
	if err := g.env.WriteShared(path, page.Bytes()); err != nil {
		return usagef("the page cannot be written: %s", err)
	}
	return nil
}
