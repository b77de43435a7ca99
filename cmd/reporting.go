package cmd

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/report"
)

// reportingOptions say what to do with a report, and what it is held to.
type reportingOptions struct {
	save, html  string
	thresholds  []string
	expressions []report.Expression
}

func (o *reportingOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.save, "save", "", "write the report to `FILE` as JSON, histograms included, for compare and report")
	flags.StringVar(&o.html, "html", "", "write the report to `FILE` as one HTML page")
	flags.StringArrayVar(&o.thresholds, "threshold", nil, "`PROMISE` to hold each run to, such as 'p99<5ms', 'over_admitted==0' or 'denied<1%'; repeat it for more")
	cmd.MarkFlagFilename("save", "json")
	cmd.MarkFlagFilename("html", "html")
	cmd.RegisterFlagCompletionFunc("threshold", cobra.NoFileCompletions)
}

// parse reads the thresholds, and sees that a run's report will not be lost for want of
// a place to write it to.
func (o *reportingOptions) parse(g *globalOptions, kind report.Kind) error {
	for _, text := range o.thresholds {
		expression, err := report.ParseThreshold(text)
		if err != nil {
			return err
		}
		if err := expression.AppliesTo(kind); err != nil {
			return err
		}
		o.expressions = append(o.expressions, expression)
	}
	if o.save != "" && o.save == o.html {
		return usagef("--save and --html both name %s; give each a file of its own", o.save)
	}
	for _, path := range []string{o.save, o.html} {
		if path == "" {
			continue
		}
		// What is in its place is replaced, but not a directory.
		in, err := g.env.Open(path)
		if err == nil {
			in.Close()
		} else if errors.Is(err, syscall.EISDIR) {
			return usagef("the report cannot be written to %s: it is a directory", path)
		}
		probe := path + ".probe"
		if err := g.env.WriteFile(probe, nil); err != nil {
			return usagef("the report cannot be written to %s: %v", path, err)
		}
		g.env.Remove(probe)
	}
	return nil
}

// finish prints the document, writes it where it was asked for, and returns errDenied
// if a threshold was missed.
func (o *reportingOptions) finish(g *globalOptions, document *report.Document) error {
	// A run may have no such figure after all. What it has is not lost for that.
	held, failure := document.Evaluate(o.expressions)
	if err := o.write(g, document); err != nil {
		failure = errors.Join(err, failure)
	}
	switch err := g.print(document); {
	case err != nil:
		return errors.Join(err, failure)
	case failure != nil:
		return failure
	case !held:
		return errDenied
	}
	return nil
}

func (o *reportingOptions) write(g *globalOptions, document *report.Document) error {
	if o.save != "" {
		data, err := document.Save()
		if err == nil {
			err = g.env.WriteFile(o.save, data)
		}
		if err != nil {
			return &outputError{fmt.Errorf("--save %s: %w", o.save, err)}
		}
	}
	if o.html != "" {
		if err := g.writePage(document, o.html); err != nil {
			return &outputError{err}
		}
	}
	return nil
}
