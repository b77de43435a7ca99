// Package cli is the frame that all commands share: what they see of the world, the flags that all have, which store
// is meant and how it is opened, what is protected, which keys are selected, and how answers and errors are printed.
package cli

import (
	"time"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

// Flags are the flags that every command has.
type Flags struct {
	Store       string
	ConfigFile  string
	ContextName string
	Prefix      string
	Timeout     time.Duration
	Format      output.Format
	JQ          string
	Quiet       bool
	// Changed tells whether a flag was given.
	Changed func(flag string) bool
}

// Globals are what every command works with.
type Globals struct {
	Flags
	Env *Env
	// Args are the words of the command line.
	Args []string
	// Filter is that of --jq, nil without it; see ReadFilter.
	Filter output.Filter
	// Parsed: the flags were read without a mistake.
	Parsed bool
	// answer is what was printed, nil if nothing was; see EndAnswer.
	answer *output.Pending
	// Follows: the command can use the configuration that was published to the store.
	Follows bool
	// Loaded and Chosen are nil until Config and Settings have found them.
	Loaded *config.Config
	Chosen *Settings
	// Layouts are those of other limiters, if the command is about their keys, and LayoutsName is
	// what --layout calls them; see layouts.go.
	Layouts     layouts.Sources
	LayoutsName string
	// ownKeysAsked: --layout asks for limitctl's own keys.
	ownKeysAsked bool
	// OfAnyKeys: the command has looked at the layouts of the context, or is about no keys.
	OfAnyKeys bool
	// ReadPassword is the content of the context's password file, empty until it is read.
	ReadPassword string
}

// Setting is a value and what it comes from.
type Setting struct{ Value, Origin string }

// byDefault is the origin of a value that nothing sets.
const byDefault = "default"

// Settings are the store that a command works with, and where that choice comes from.
type Settings struct {
	Store, Prefix Setting
	// Context is the context that names the store, or nil.
	Context *config.Context
	// byFlag: the command line or the environment names the store.
	byFlag bool
	// chosenBy is what chose the context, if the command line does not name a store.
	chosenBy string
	// hidden is the context chosen by "context use" that LIMITCTL_STORE overrides.
	hidden string
	// Guard is another, protected context that has the same store; see protect.go.
	Guard *config.Context
	// guardAnnounced: the command has named Guard to the user.
	guardAnnounced bool
	// announced: the command has named the store to the user.
	announced bool
}

// Access is what the context in use allows, or the protected one whose store it is; without
// either nothing is forbidden. What changes something calls SettingsToChange before.
func (s *Settings) Access() operation.Access {
	switch {
	case s.Guard != nil:
		return operation.Access{Context: s.Guard.Name, Protected: true, Reached: true}
	case s.Context != nil:
		return operation.Access{Context: s.Context.Name, ReadOnly: s.Context.ReadOnly, Protected: s.Context.Protected}
	}
	return operation.Access{}
}
