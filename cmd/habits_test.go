package cmd

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
)

// Each hint is about a command that is not there, and names one that is, with flags that it has.
func TestHabitsNameCommandsThatAreThere(t *testing.T) {
	root := newRootCmd(&cli.Globals{Env: &cli.Env{}})
	find := func(words []string) *cobra.Command {
		found, rest, err := root.Find(words)
		if err != nil || len(rest) > 0 {
			return nil
		}
		return found
	}
	for word, instead := range cli.Habits() {
		if find([]string{word}) != nil {
			t.Errorf("%s is a command, and needs no hint", word)
		}
		var commands, flags []string
		for _, w := range strings.Fields(instead)[1:] {
			switch {
			case strings.HasPrefix(w, "--"):
				flags = append(flags, strings.TrimPrefix(w, "--"))
			case len(flags) == 0 && w == strings.ToLower(w):
				commands = append(commands, w)
			}
		}
		cmd := find(commands)
		if cmd == nil || len(commands) == 0 {
			t.Errorf("`%s` is not a command", instead)
			continue
		}
		for _, flag := range flags {
			if cmd.Flags().Lookup(flag) == nil {
				t.Errorf("`%s` has no flag %s", instead, flag)
			}
		}
	}
}

// A command that is made alone, because its name comes first, has to be the one of that name.
func TestCommandsHaveTheNamesTheyAreFoundBy(t *testing.T) {
	for _, c := range commands() {
		global := &cli.Globals{Env: newWorld(t).Env, Args: []string{c.name}}
		if made := c.make(global); made.Name() != c.name {
			t.Errorf("%s makes %s", c.name, made.Name())
		}
		if alone := rootFor(global).Commands(); len(alone) != 1 || alone[0].Name() != c.name {
			t.Errorf("for %s there are %d commands", c.name, len(alone))
		}
	}
}
