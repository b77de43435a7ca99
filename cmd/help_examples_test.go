package cmd

import (
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/shell"
)

// The commands of each example are there, and so are their flags, with values that these take.
func TestHelpExamplesNameWhatThereIs(t *testing.T) {
	n := 0
	for _, c := range commandsOf(newRootCmd(&cli.Globals{Env: newWorld(t).Env})) {
		for line := range strings.Lines(c.Example) {
			line = strings.NewReplacer(";", " && ", ")", " && ", "<(", "").Replace(strings.TrimSpace(line))
			var words []string
			for _, word := range append(shell.Words(line), "&&") {
				if word != "&&" && word != "|" && word != "--" {
					words = append(words, word)
					continue
				}
				for len(words) > 0 && words[0] != "limitctl" {
					words = words[1:]
				}
				if len(words) > 0 {
					n++
					found, rest, err := newRootCmd(&cli.Globals{Env: newWorld(t).Env}).Find(words[1:])
					if err == nil {
						err = found.ParseFlags(rest)
					}
					if err != nil || found.HasSubCommands() {
						t.Errorf("`%s` has the example %s: %v", c.CommandPath(), line, err)
					}
				}
				words = nil
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d examples were found", n)
	}
}
