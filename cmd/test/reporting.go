package test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/shell"
)

// The titles of groups of flags that several commands have.
const (
	reportingTitle = "The report and the verdict"
	endpointTitle  = "An endpoint"
	wrapTitle      = "What a service has around its store"
	logTitle       = "Recorded traffic"
)

// reportingOptions are the flags about the output of a report, and its thresholds.
type reportingOptions struct {
	save, html string
	thresholds []string
	summaryFlags
	verdictFlags
}

// verdictFlags are the flags about the verdict and the exit code.
type verdictFlags struct{ noFail, strict bool }

func (o *verdictFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.noFail, "no-fail", false,
		"do not exit with 1 if the audit found something wrong or a threshold could not be judged; one that was missed still counts")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "exit with 1 if too little was seen for a verdict, too")
}

// exit returns ErrDenied if a threshold was missed or not judged, an audit failed or too many requests got no decision.
func (o *verdictFlags) exit(d *report.Document) error {
	if d.Failed(o.noFail, o.strict) {
		return cli.ErrDenied
	}
	return nil
}

func (o *reportingOptions) addFlags(cmd *cobra.Command) {
	o.addFileFlags(cmd)
	o.verdictFlags.addFlags(cmd)
}

// addFileFlags adds the flags but those of the verdict.
func (o *reportingOptions) addFileFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.save, "save", "", "write the report to `FILE` as JSON, for report")
	flags.StringVar(&o.html, "html", "", "write the report to `FILE` as one HTML page")
	flags.StringArrayVar(&o.thresholds, "threshold", nil,
		"`PROMISE` that each run must keep, such as 'p99<5ms', 'over_admitted==0' or 'denied<1%'; repeat it for more")
	o.summaryFlags.addFlags(cmd)
	cmd.MarkFlagFilename("save", "json")
	cmd.MarkFlagFilename("html", "html")
}

// errorsFlag is the flag about how many requests may get no decision.
type errorsFlag struct{ maxErrors string }

func (o *errorsFlag) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.maxErrors, "max-errors", "1%",
		"exit with 1 if more than `PERCENT` of the planned requests got no decision: they failed, timed out or were dropped")
}

// parse returns the share.
func (o *errorsFlag) parse() (float64, error) {
	share, ok := parsePercent(o.maxErrors)
	if !ok || share > 1 {
		return 0, cli.Usagef("--max-errors %q is not a percentage from 0%% to 100%%; write one such as 1%%", o.maxErrors)
	}
	return share, nil
}

// parse returns the thresholds. It also checks that the report can be written to its files.
func (o *reportingOptions) parse(cmd *cobra.Command, g *cli.Globals, kind report.Kind) ([]report.Expression, error) {
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
	return promises, o.summaryFlags.check(cmd, g)
}

// finish prints the document, unless a summary replaces it, writes its files, and returns ErrDenied if a threshold was missed or
// an audit failed.
func (o *reportingOptions) finish(g *cli.Globals, document *report.Document, promises []report.Expression) error {
	// A run may lack the metric of a threshold. The rest is printed anyway.
	document.Origin = origin(g)
	_, failure := document.Evaluate(promises)
	if err := o.write(g, document); err != nil && failure == nil && errors.Is(o.exit(document), cli.ErrDenied) {
		g.Note("%s", g.WithoutSecrets(cli.Message(err))) // a pipeline needs the verdict
	} else if err != nil {
		failure = errors.Join(err, failure)
	}
	if !o.summaryFlags.replacesAnswer() {
		if err := g.Print(report.Answer{Report: document, Verbose: g.Verbose}); err != nil {
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
			return err
		}
	}
	return o.summaryFlags.write(g, report.Answer{Report: document}.Summary())
}

// writePage writes a report as HTML.
func writePage(g *cli.Globals, d *report.Document, path string) error {
	var page bytes.Buffer
	if err := (report.Answer{Report: d}).HTML(&page); err != nil {
		return err
	}
	if err := g.Env.WriteShared(path, page.Bytes()); err != nil {
		return cli.NotPrinted(fmt.Errorf("%s: %w", shell.Command("--html", path), cli.Cause(err)))
	}
	return nil
}

// summaryFlags are the flags for summaries that CI systems show.
type summaryFlags struct{ markdown, junit string }

func (o *summaryFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.markdown, "markdown", "",
		"write a summary in Markdown to `FILE`, or - for standard output; a file that $GITHUB_STEP_SUMMARY names is extended")
	flags.StringVar(&o.junit, "junit", "", "write each audit and threshold as a test case in JUnit XML to `FILE`, or - for standard output")
	cmd.MarkFlagFilename("markdown", "md")
	cmd.MarkFlagFilename("junit", "xml")
}

// check reports a file that a report or a summary cannot be written to.
func (o *summaryFlags) check(cmd *cobra.Command, g *cli.Globals) error {
	if o.markdown == cli.StandardOutput && o.junit == cli.StandardOutput {
		return cli.Usagef("--markdown - and --junit - both want standard output; give one of them a file")
	}
	return cli.CheckPlaces(cmd, g)
}

// replacesAnswer reports whether a summary goes to standard output instead of the answer.
func (o *summaryFlags) replacesAnswer() bool {
	return o.markdown == cli.StandardOutput || o.junit == cli.StandardOutput
}

// write writes the summaries.
func (o *summaryFlags) write(g *cli.Globals, s *report.Summary) error {
	for _, summary := range []struct {
		flag, path string
		text       func() []byte
	}{{"--markdown", o.markdown, s.Markdown}, {"--junit", o.junit, s.JUnit}} {
		if summary.path == "" {
			continue
		}
		if err := cli.WriteSummary(g, summary.path, summary.text()); err != nil {
			return cli.NotPrinted(fmt.Errorf("%s: %w", shell.Command(summary.flag, summary.path), cli.Cause(err)))
		}
	}
	return nil
}

// origin is what makes a report.
func origin(g *cli.Globals) *report.Origin {
	return &report.Origin{Version: g.Env.ProgramVersion(), Host: g.Env.Host(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.GOMAXPROCS(0)}
}
