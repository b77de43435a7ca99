package cmd

import (
	"errors"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
)

// complaint is the message of an error for the user: one line, or a block for each mistake in a
// configuration file.
func complaint(g *cli.Globals, err error) string {
	if mistakes := cli.MistakesOf(err); mistakes != nil {
		p := &output.Printer{Color: g.Color()}
		return g.WithoutSecrets(mistakes.Format(func(text string) string { return p.Paint(output.AtEnd, text) }))
	}
	text := g.WithoutSecrets(cli.Message(err))
	if bugIn(err) != nil {
		text = bugComplaint(text)
	}
	return "limitctl: " + text
}

// bugComplaint adds to the message of a panic how to report the bug.
func bugComplaint(what string) string {
	return what + "; this is a bug of limitctl, please report it with what you ran at " + bugReports +
		" (LIMITCTL_DEBUG=1 shows where it is)"
}

// bugReports is where to report a bug.
const bugReports = "https://github.com/limitctl/limitctl/issues"

// bugIn returns the panic that an error is about, or nil.
func bugIn(err error) *panics.Error {
	var bug *panics.Error
	errors.As(err, &bug)
	return bug
}
