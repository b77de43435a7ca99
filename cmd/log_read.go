package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/limitctl/limitctl/cmd/internal/files"
	"github.com/limitctl/limitctl/cmd/internal/trial"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// read reads the log. It prints at once what a reader of the figures must know about it.
func (r *logReading) read(ctx context.Context, g *globalOptions) (*trial.Log, error) {
	in := g.env.In
	if r.file != "-" {
		file, err := g.env.Open(r.file)
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
	return &trial.Log{Trace: log, Name: r.name, Notes: g.logWarnings(log), KeyFields: r.keyFields, FieldOf: r.fieldOf}, nil
}

// explain says which file an error is about.
func (r *logReading) explain(err error) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case files.IsNotAFile(err):
		return usagef("the log %s cannot be read: %s; give - instead, and the log as standard input", r.name, cause(err))
	case errors.As(err, &path):
		return usagef("the log %s cannot be read: %s", r.name, path.Err)
	}
	return fmt.Errorf("%s: %w", r.name, err)
}

// logWarnings returns what a reader of the figures must know about the log, and prints it
// where the report is for a program.
func (g *globalOptions) logWarnings(log *trace.Trace) []string {
	var warnings []string
	warn := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		warnings = append(warnings, text)
		g.warnBesideReport(text)
	}
	if log.Bad > 0 {
		first := log.FirstBad[0]
		warn("%d of %d lines could not be read and are left out; line %d, %q: %s", log.Bad, log.Lines, first.Number, first.Excerpt, first.Reason)
		for _, bad := range log.FirstBad[1:] {
			g.warn(fmt.Sprintf("line %d, %q: %s", bad.Number, bad.Excerpt, bad.Reason))
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
func (g *globalOptions) warnBesideReport(text string) {
	if g.format.String() != "table" {
		g.warn(text)
	}
}

// warn prints a warning, unless --quiet is given.
func (g *globalOptions) warn(text string) {
	if !g.quiet {
		g.note("warning: %s", text)
	}
}
