package cmd

import (
	"testing"

	"github.com/limitctl/limitctl/internal/cli"
)

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
