package cmd

import (
	"time"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
)

// globalFlags are the flags that every command has.
type globalFlags struct {
	store       string
	configFile  string
	contextName string
	prefix      string
	timeout     time.Duration
	format      output.Format
	formulas    output.Formulas
	quiet       bool
	// changed tells whether a flag was given.
	changed func(flag string) bool
}

// globalOptions are what every command works with.
type globalOptions struct {
	globalFlags
	env *Env
	// args are the words of the command line.
	args []string
	// parsed: the flags were read without a mistake.
	parsed bool
	// answer is what was printed, nil if nothing was; see endAnswer.
	answer *output.Pending
	// What was read and chosen, once it was; see settings.go.
	loaded *config.Config
	chosen *settings
	// layouts are those of other limiters, if the command is about their keys, and layoutsName is
	// what --layout calls them; see layout_flags.go.
	layouts     foreign.Sources
	layoutsName string
	// ownKeysAsked: --layout says that limitctl's own keys are meant.
	ownKeysAsked bool
	// ofAnyKeys: the command has looked at the layouts of the context, or is about no keys.
	ofAnyKeys bool
	// readPassword is what the context's password file holds, once it was read.
	readPassword string
}
