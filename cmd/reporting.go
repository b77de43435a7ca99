package cmd

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/show"
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

// exit returns errDenied if a promise was not kept or an audit failed.
func (o *verdictFlags) exit(d *report.Document) error {
	if d.Missed() || d.AuditFailed() && !o.noFail {
		return errDenied
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

// cause is why a file could not be written, without the name of the temporary file that
// was written first.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// parse returns the promises. It also checks that the report can be written to where it
// is wanted, so that it is not lost after the run, and that it does not replace the file
// that the command reads.
func (o *reportingOptions) parse(cmd *cobra.Command, g *globalOptions, kind report.Kind, reads string) ([]report.Expression, error) {
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

// finish prints the document, writes it to where it is wanted, and returns errDenied if a
// promise was not kept or an audit failed.
func (o *reportingOptions) finish(g *globalOptions, document *report.Document, promises []report.Expression) error {
	// A run may not have the figure that a promise is about. The rest is printed anyway.
	document.Origin = g.origin()
	_, failure := document.Evaluate(promises)
	if err := o.write(g, document); err != nil {
		failure = errors.Join(err, failure)
	}
	if !o.summaryFlags.replacesAnswer() {
		if err := g.print(show.Answer{Report: document}); err != nil {
			return errors.Join(err, failure)
		}
	}
	if failure != nil {
		return failure
	}
	return o.exit(document)
}

func (o *reportingOptions) write(g *globalOptions, document *report.Document) error {
	if o.save != "" {
		data, err := document.Save()
		if err == nil {
			err = g.env.WriteShared(o.save, data)
		}
		if err != nil {
			return &outputError{fmt.Errorf("%s: %w", shell.Command("--save", o.save), err)}
		}
	}
	if o.html != "" {
		if err := g.writePage(document, o.html); err != nil {
			return &outputError{err}
		}
	}
	return o.summaryFlags.write(g, show.Answer{Report: document})
}
