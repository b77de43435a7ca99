package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/files"
	"github.com/limitctl/limitctl/cmd/internal/trial"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// read reads the log. It prints at once what a reader of the figures must know about it.
func (r *logReading) read(ctx context.Context, g *cli.Globals) (*trial.Log, error) {
	in := g.Env.In
	if r.file != "-" {
		file, err := g.Env.Open(r.file)
		if err != nil {
			return nil, r.explain(err)
		}
		defer file.Close()
		in = file
	}
	log, err := trace.Read(ctx, in, r.from)
	if err != nil {
		return nil, r.explain(err)
	}
	return &trial.Log{Trace: log, Name: r.name, Notes: logWarnings(g, log), KeyFields: r.keyFields, FieldOf: r.fieldOf}, nil
}

// explain says which file an error is about.
func (r *logReading) explain(err error) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case files.IsNotAFile(err):
		return cli.Usagef("the log %s cannot be read: %s; give - instead, and the log as standard input", r.name, cli.Cause(err))
	case errors.As(err, &path):
		return cli.Usagef("the log %s cannot be read: %s", r.name, path.Err)
	}
	return fmt.Errorf("%s: %w", r.name, err)
}

// logWarnings returns what a reader of the figures must know about the log, and prints it
// where the report is for a program.
func logWarnings(g *cli.Globals, log *trace.Trace) []string {
	var warnings []string
	warn := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		warnings = append(warnings, text)
		warnBesideReport(g, text)
	}
	if log.Bad > 0 {
		first := log.FirstBad[0]
		warn("%d of %d lines could not be read and are left out; line %d, %q: %s", log.Bad, log.Lines, first.Number, first.Excerpt, first.Reason)
		for _, bad := range log.FirstBad[1:] {
			g.Warn(fmt.Sprintf("line %d, %q: %s", bad.Number, bad.Excerpt, bad.Reason))
		}
	}
	if log.OutOfOrder > 0 {
		warn("%d of %d lines were out of order, and were put in order", log.OutOfOrder, log.Lines)
	}
	if log.Damage != "" {
		warn("the log is not complete: %s; the figures are about what could be read before", log.Damage)
	}
	return warnings
}

// warnBesideReport prints a warning that the report has, too, if the report is for a
// program to read.
func warnBesideReport(g *cli.Globals, text string) {
	if g.Format.String() != "table" {
		g.Warn(text)
	}
}
