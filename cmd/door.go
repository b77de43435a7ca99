package cmd

import (
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// withDoors returns env with a door before each of its streams, so that nothing that a
// stranger wrote does anything to a terminal, and what writes out the last of it.
func withDoors(env *Env, styles bool) (inside *Env, flush func()) {
	out, err := output.NewTerminal(env.Out, styles), output.NewTerminal(env.Err, styles)
	copied := *env
	copied.rawOut, copied.rawErr = env.Out, env.Err
	copied.Out, copied.Err = out, err
	return &copied, func() {
		out.Flush()
		err.Flush()
	}
}

// say writes one line beside the answer, whatever it is given; note says whose it is.
func (g *globalOptions) say(format string, args ...any) {
	(&output.Printer{Out: g.env.Err}).Line(format, args...)
}

func (g *globalOptions) note(format string, args ...any) { g.say("limitctl: "+format, args...) }

// warnOfFormulas says so if a CSV that was printed is not for a spreadsheet.
func (g *globalOptions) warnOfFormulas(p *output.Printer) {
	if n := p.FormulaCells(); n > 0 {
		g.note("warning: a spreadsheet would take %s for formulas; for one, give --csv-formulas escape", output.Plural(n, "cell"))
	}
}
