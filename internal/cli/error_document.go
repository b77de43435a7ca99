package cli

import (
	"strings"

	"github.com/limitctl/limitctl/internal/output"
)

// EndAnswer prints the rest of the answer for programs, with the error that ends the command;
// err may be nil.
func EndAnswer(g *Globals, err error) error {
	if errorKindOf(err).Word == "" { // done, or an answer such as denied
		return g.answer.End(nil)
	}
	document := errorFor(g, err)
	if g.answer != nil {
		return g.answer.End(document)
	}
	p := g.Printer()
	p.Format = formatWanted(g)
	return p.Error(document)
}

// errorFor returns an error in the form that programs get.
func errorFor(g *Globals, err error) *output.Error {
	return &output.Error{Kind: errorKindOf(err).Word, Message: g.WithoutSecrets(programMessage(err))}
}

// programMessage is an error as one line for programs: all mistakes of a configuration.
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

// formatWanted is the output format, even if a mistake on the command line prevented the parsing
// of its flags.
func formatWanted(g *Globals) output.Format {
	if g.Format != "" || g.Parsed {
		return g.Format
	}
	return formatAmong(g.Args)
}

// formatAmong returns the last output format that the words of a command line name. It does not
// know the other flags, so it can take the value of one for a format.
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
