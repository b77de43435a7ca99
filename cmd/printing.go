package cmd

import (
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// printer returns where and how to print the answer.
func (g *globalOptions) printer() *output.Printer {
	p := &output.Printer{Out: g.env.Out, Data: g.env.rawOut, Format: g.format, Formulas: g.formulas, Quiet: g.quiet}
	if g.env.OutIsTerminal {
		p.Data = p.Out // somebody is looking at it
		p.Width, _ = g.env.Size()
		p.Color = g.color()
	}
	return p
}

// color reports whether the terminal is to see colours.
func (g *globalOptions) color() bool {
	return g.env.OutIsTerminal && g.env.Getenv("NO_COLOR") == "" && g.env.Getenv("TERM") != "dumb"
}

// print prints an answer in the chosen form. What is one document is printed when the command
// ends, since an error is a field of it.
func (g *globalOptions) print(a output.Answer) (err error) {
	if err := g.answer.End(nil); err != nil { // of an answer before
		return &outputError{err}
	}
	p := g.printer()
	if g.answer, err = p.Hold(a); err != nil {
		return &outputError{err}
	}
	warnOfFormulas(g, p)
	return nil
}

// say writes one line to stderr, for any arguments. note also says whose line it is.
func (g *globalOptions) say(format string, args ...any) {
	(&output.Printer{Out: g.env.Err}).Line(format, args...)
}

func (g *globalOptions) note(format string, args ...any) { g.say("limitctl: "+format, args...) }

// warnOfFormulas says so if a CSV that was printed is not for a spreadsheet.
func warnOfFormulas(g *globalOptions, p *output.Printer) {
	if n := p.FormulaCells(); n > 0 {
		g.note("warning: a spreadsheet would take %s for formulas; for one, give --csv-formulas escape", output.Plural(n, "cell"))
	}
	if n := p.HiddenCells(); n > 0 && !g.env.OutIsTerminal {
		g.note("warning: %s with control characters, or with bytes that are not UTF-8; CSV has them as they are, and -o json escapes them",
			countOf(int64(n), "cell was printed", "cells were printed"))
	}
}
