package cli

import (
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// EndAnswer prints what is left of the answer, with the error that the command ends with,
// for programs. err may be nil.
func EndAnswer(g *Globals, err error) error {
	if errorKindOf(err).Word == "" { // done, or an answer such as denied
		return g.answer.End(nil)
	}
	told := toldError(g, err)
	if g.answer != nil {
		return g.answer.End(told)
	}
	p := g.Printer()
	p.Format = formatWanted(g)
	return p.Error(told)
}

// toldError is an error as programs see it.
func toldError(g *Globals, err error) *output.Error {
	return &output.Error{Kind: errorKindOf(err).Word, Message: g.WithoutSecrets(programMessage(err))}
}

// programMessage is an error as one line for programs: all mistakes of a configuration
// without excerpts.
func programMessage(err error) string {
	mistakes := MistakesOf(err)
	if mistakes == nil {
		return Message(err)
	}
	texts := make([]string, len(mistakes.List))
	for i := range mistakes.List {
		texts[i] = mistakes.List[i].String()
	}
	return output.Escape(strings.Join(texts, "; "))
}

// formatWanted is the output format, also where the command line has a mistake that kept
// its flags from being read.
func formatWanted(g *Globals) output.Format {
	if g.Format != "" || g.Parsed {
		return g.Format
	}
	return formatAmong(g.Args)
}

// formatAmong returns the last output format that the words of a command line name, as far
// as that can be told without knowing all flags.
func formatAmong(args []string) (found output.Format) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, value, hasValue := strings.Cut(arg, "=")
		switch {
		case name == "-o" || name == "--output":
			if !hasValue && i+1 < len(args) {
				value = args[i+1]
			}
		case strings.HasPrefix(arg, "-o"):
			value = arg[len("-o"):]
		default:
			continue
		}
		var format output.Format
		if format.Set(value) == nil {
			found = format
		}
	}
	return found
}
