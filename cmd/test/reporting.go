package test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/output"
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

// reporting has the flags about a report, its thresholds and the verdict. Each command has some of them.
type reporting struct {
	save, html, markdown, junit string
	thresholds                  []string
	maxErrors                   string
	noFail, strict              bool
	promises                    []report.Expression // the thresholds
	// the share of planned requests that may get no decision, from maxErrors
	mayFail *float64
}

// flags returns what adds the flags of these names.
func (o *reporting) flags(names ...string) func(*cobra.Command) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.StringVar(&o.save, "save", "", "write the report to `FILE` as JSON, for report")
	all.StringVar(&o.html, "html", "", "write the report to `FILE` as one HTML page")
	all.StringArrayVar(&o.thresholds, "threshold", nil,
		"`PROMISE` that each run must keep, such as 'p99<5ms', 'over_admitted==0' or 'denied<1%'; repeat it for more")
	all.StringVar(&o.markdown, "markdown", "",
		"write a summary in Markdown to `FILE`, or - for standard output; a file that $GITHUB_STEP_SUMMARY names is "+
			"extended")
	all.StringVar(&o.junit, "junit", "",
		"write each check, audit and threshold as a test case in JUnit XML to `FILE`, or - for standard output")
	all.BoolVar(&o.noFail, "no-fail", false,
		"do not exit with 1 if the audit found something wrong or a threshold could not be judged; one that was "+
			"missed still counts")
	all.BoolVar(&o.strict, "strict", false, "exit with 1 if too little was seen for a verdict, too")
	all.StringVar(&o.maxErrors, "max-errors", "1%",
		"exit with 1 if more than `PERCENT` of the planned requests got no decision: they failed, timed out or were "+
			"dropped")
	return func(cmd *cobra.Command) {
		for _, name := range names {
			cmd.Flags().AddFlag(all.Lookup(name))
		}
		for flag, ending := range map[string]string{"save": "json", "html": "html", "markdown": "md", "junit": "xml"} {
			_ = cmd.MarkFlagFilename(flag, ending) // of those that the command has
		}
	}
}

// standardOutput is the path that stands for standard output.
const standardOutput = "-"

// parse reads the flags. It also checks that the report can be written to its files, and that none of them is among
// those that the command reads.
func (o *reporting) parse(cmd *cobra.Command, g *cli.Globals, kind report.Kind, reads ...string) error {
	if err := cli.NotEmpty(cmd, "save", "html", "markdown", "junit"); err != nil {
		return err
	}
	for _, text := range o.thresholds {
		promise, err := report.ParseThreshold(text)
		if err == nil {
			err = promise.AppliesTo(kind)
		}
		if err != nil {
			return err
		}
		o.promises = append(o.promises, promise)
	}
	if cmd.Flags().Lookup("max-errors") != nil {
		share, ok := parsePercent(o.maxErrors)
		if !ok || share > 1 {
			return cli.Usagef("--max-errors %q is not a percentage from 0%% to 100%%; write one such as 1%%",
				o.maxErrors)
		}
		o.mayFail = &share
	}
	used := map[string]bool{}
	for _, path := range append(reads, g.ConfigFile, config.LocalFile, g.Env.Getenv("LIMITCTL_CONFIG")) {
		used[files.Follow(path)] = path != "" && path != standardOutput // a command reads standard input
	}
	for _, file := range [][2]string{{"save", o.save}, {"html", o.html}, {"markdown", o.markdown}, {"junit", o.junit}} {
		flag, path := file[0], file[1]
		if path == "" {
			continue
		}
		end := files.Follow(path)
		if used[end] {
			return cli.Usagef("--%s %s is another file of this command, too; name one of its own", flag, path)
		}
		used[end] = true
		if path == standardOutput {
			for _, other := range []string{"output", "jq"} {
				if g.Changed(other) {
					return cli.Usagef("--%s - and --%s both write to standard output; give a file", flag, other)
				}
			}
			continue
		}
		if err := files.CanWrite(path); err != nil {
			return cli.Usagef("--%s %s: the report cannot be written there: %s", flag, path, cli.Cause(err))
		}
	}
	return nil
}

// finish judges a document, prints it, writes its files, and returns ErrDenied if a threshold was missed or an audit
// failed.
func (o *reporting) finish(g *cli.Globals, d *report.Document) error {
	d.MaxErrors = o.mayFail
	failure := d.Evaluate(o.promises) // a run may lack the metric; the rest is printed anyway
	if err := o.write(g, d); err != nil && failure == nil && errors.Is(o.exit(d), cli.ErrDenied) {
		g.Note("%s", g.WithoutSecrets(cli.Message(err))) // a pipeline needs the verdict
	} else if err != nil {
		failure = errors.Join(err, failure)
	}
	if err := o.print(g, report.Answer{Report: d, Verbose: g.Verbose}); err != nil || failure != nil {
		return errors.Join(err, failure)
	}
	return o.exit(d)
}

// exit returns ErrDenied if a threshold was missed or not judged, an audit failed or too many requests got no decision.
func (o *reporting) exit(d *report.Document) error {
	if d.Failed(o.noFail, o.strict) {
		return cli.ErrDenied
	}
	return nil
}

// print prints an answer, unless a file of the report goes to standard output in its place.
func (o *reporting) print(g *cli.Globals, a output.Answer) error {
	if slices.Contains([]string{o.save, o.html, o.markdown, o.junit}, standardOutput) {
		return nil
	}
	return g.Print(a)
}

// write writes the files of a report.
func (o *reporting) write(g *cli.Globals, d *report.Document) error {
	if err := writeFile(g, "--save", o.save, d.Save); err != nil {
		return err
	}
	if err := writeFile(g, "--html", o.html, report.Answer{Report: d}.HTML); err != nil {
		return err
	}
	return o.summarize(g, report.Answer{Report: d}.Summary(o.strict))
}

// summarize writes the summaries.
func (o *reporting) summarize(g *cli.Globals, s *report.Summary) error {
	err := writeFile(g, "--markdown", o.markdown, func() ([]byte, error) { return s.Markdown(), nil })
	if err != nil {
		return err
	}
	return writeFile(g, "--junit", o.junit, func() ([]byte, error) { return s.JUnit(), nil })
}

// writeFile writes a text to a file; none if path is empty. To the file that GitHub shows for a step it appends, since
// other commands of the step write there, too.
func writeFile(g *cli.Globals, flag, path string, text func() ([]byte, error)) error {
	if path == "" {
		return nil
	}
	data, err := text()
	switch {
	case err != nil:
	case path == standardOutput:
		_, err = g.Printer().Data.Write(data)
	case path == g.Env.Getenv("GITHUB_STEP_SUMMARY"):
		file, failed := files.Extend(path)
		if err = failed; err == nil {
			_, err = file.Write(data)
			err = errors.Join(err, file.Close())
		}
	default:
		err = files.WriteShared(path, data)
	}
	if err != nil {
		return cli.NotPrinted(fmt.Errorf("%s: %w", shell.Command(flag, path), cli.Cause(err)))
	}
	return nil
}

// parsePercent reads "10%" as 0.1.
func parsePercent(text string) (share float64, ok bool) {
	share, percent, ok := cli.ParseShare(text)
	return share, percent && ok && share <= 10
}
