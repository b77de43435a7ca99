package cmd

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/shell"
)

// reportingOptions are the flags that say what to do with a report, and which promises it
// has to keep.
type reportingOptions struct {
	save, html string
	thresholds []string
	summaryFlags
	verdictFlags
}

// verdictFlags say what a verdict does to the exit code.
type verdictFlags struct{ noFail bool }

func (o *verdictFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.noFail, "no-fail", false,
		"do not exit with 1 because the audit found something wrong; the report still says so, and a threshold still counts")
}

// exit returns ErrDenied if a promise was not kept or an audit failed.
func (o *verdictFlags) exit(d *report.Document) error {
	if d.Missed() || d.AuditFailed() && !o.noFail {
		return cli.ErrDenied
	}
	return nil
}

func (o *reportingOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.save, "save", "", "write the report to `FILE` as JSON, histograms included, for compare and report")
	flags.StringVar(&o.html, "html", "", "write the report to `FILE` as one HTML page")
	flags.StringArrayVar(&o.thresholds, "threshold", nil,
		"`PROMISE` that each run has to keep, such as 'p99<5ms', 'over_admitted==0' or 'denied<1%'; repeat it for more")
	o.summaryFlags.addFlags(cmd)
	o.verdictFlags.addFlags(cmd)
	cmd.MarkFlagFilename("save", "json")
	cmd.MarkFlagFilename("html", "html")
	cmd.RegisterFlagCompletionFunc("threshold", cobra.NoFileCompletions)
}

// parse returns the promises. It also checks that the report can be written to where it
// is wanted, so that it is not lost after the run, and that it does not replace the file
// that the command reads.
func (o *reportingOptions) parse(cmd *cobra.Command, g *cli.Globals, kind report.Kind, reads string) ([]report.Expression, error) {
	var promises []report.Expression
	for _, text := range o.thresholds {
		promise, err := report.ParseThreshold(text)
		if err != nil {
			return nil, err
		}
		if err := promise.AppliesTo(kind); err != nil {
			return nil, err
		}
		promises = append(promises, promise)
	}
	if err := o.summaryFlags.check(cmd, g); err != nil {
		return nil, err
	}
	return promises, checkPlaces(cmd, g, reads, "save", "html", "markdown", "junit")
}

// finish prints the document, writes it to where it is wanted, and returns ErrDenied if a
// promise was not kept or an audit failed.
func (o *reportingOptions) finish(g *cli.Globals, document *report.Document, promises []report.Expression) error {
	// A run may not have the figure that a promise is about. The rest is printed anyway.
	document.Origin = origin(g)
	_, failure := document.Evaluate(promises)
	if err := o.write(g, document); err != nil {
		failure = errors.Join(err, failure)
	}
	if !o.summaryFlags.replacesAnswer() {
		if err := g.Print(document); err != nil {
			return errors.Join(err, failure)
		}
	}
	if failure != nil {
		return failure
	}
	return o.exit(document)
}

func (o *reportingOptions) write(g *cli.Globals, document *report.Document) error {
	if o.save != "" {
		data, err := document.Save()
		if err == nil {
			err = g.Env.WriteShared(o.save, data)
		}
		if err != nil {
			return cli.NotPrinted(fmt.Errorf("%s: %w", shell.Command("--save", o.save), err))
		}
	}
	if o.html != "" {
		if err := writePage(g, document, o.html); err != nil {
			return cli.NotPrinted(err)
		}
	}
	return o.summaryFlags.write(g, document)
}

// writePage writes a report as HTML.
func writePage(g *cli.Globals, d *report.Document, path string) error {
	var page bytes.Buffer
	if err := d.HTML(&page); err != nil {
		return err
	}
	if err := g.Env.WriteShared(path, page.Bytes()); err != nil {
		return cli.Usagef("the page cannot be written: %s", err)
	}
	return nil
}
