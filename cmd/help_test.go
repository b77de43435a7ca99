package cmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/cli"
)

// The help of a command fits a screen of 60 lines. --help-all has every flag.
func TestHelpFitsAScreen(t *testing.T) {
	w := newWorld(t)
	root := newRootCmd(&cli.Globals{Env: w.Env})
	for _, c := range append(commandsOf(root), root) {
		var short, whole bytes.Buffer
		(&helpPrinter{&short}).print(c, false)
		(&helpPrinter{&whole}).print(c, true)
		if lines := strings.Count(short.String(), "\n"); lines > 60 {
			t.Errorf("%s --help has %d lines", c.CommandPath(), lines)
		}
		if strings.Contains(short.String(), "runs:\n\n") {
			t.Errorf("%s --help has a title and no flags", c.CommandPath())
		}
		for _, group := range flagGroupsOf(c) {
			for _, flag := range group.flags {
				if !strings.Contains(whole.String(), "--"+flag.Name) {
					t.Errorf("%s --help-all has no --%s", c.CommandPath(), flag.Name)
				}
			}
		}
	}
}
