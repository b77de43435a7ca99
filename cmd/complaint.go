package cmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
)

// complaint is what an error says to the user: one line, or a block for each
// mistake of a configuration file.
func complaint(g *globalOptions, err error) string {
	if mistakes := mistakesOf(err); mistakes != nil {
		p := &output.Printer{Color: g.color()}
		return g.withoutSecrets(mistakes.Format(func(text string) string { return p.Paint(output.AtEnd, text) }))
	}
	text := g.withoutSecrets(message(err))
	if bugIn(err) != nil {
		text = bugComplaint(text)
	}
	return "limitctl: " + text
}

// bugComplaint says of a panic, which is a bug, what to do about it.
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

// mistakesOf returns the mistakes of a configuration that an error holds, or nil.
func mistakesOf(err error) *config.Mistakes {
	var mistakes *config.Mistakes
	errors.As(err, &mistakes)
	return mistakes
}

// message puts an error on one line of a length that people read, with all that a server
// or a file may have put into it to be seen.
func message(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	const most = 5
	if len(lines) > most+1 { // a sixth line takes no more room than saying that there is one
		lines = append(lines[:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	const longest = 2000
	return output.Shorten(output.Escape(strings.Join(lines, "; ")), longest)
}

// flagComplaint says what is wrong with a flag, in place of what Go says of its value.
func flagComplaint(err error) string {
	text := err.Error()
	var number *strconv.NumError
	switch errors.As(err, &number); {
	case number == nil:
		if before, _, is := strings.Cut(text, ": time: "); is {
			return before + ": write a duration like 500ms, 2s or 1m"
		}
		return text
	case number.Func == "ParseFloat" && !errors.Is(number, strconv.ErrRange):
		return strings.Replace(text, number.Error(), "write a number", 1)
	case number.Func == "ParseBool":
		return strings.Replace(text, number.Error(), "it is true or false", 1)
	case errors.Is(number, strconv.ErrRange):
		return strings.Replace(text, number.Error(), "it is out of range", 1)
	}
	return strings.Replace(text, number.Error(), "write a whole number", 1)
}
