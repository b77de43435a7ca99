package cli

import (
	"strings"

	"github.com/spf13/pflag"
)

// contextVariable names a context, as the flag --context does.
const contextVariable = "LIMITCTL_CONTEXT"

// variableOf is the environment variable that has the default of a flag of every command.
func variableOf(flag string) string { return "LIMITCTL_" + strings.ToUpper(flag) }

// ReadVariables gives --output, --prefix and --timeout the values of their environment variables, as far as the
// command line does not have them. Settings reads those of --store and --context.
func (g *Globals) ReadVariables(flags *pflag.FlagSet) error {
	for _, name := range []string{"output", "prefix", "timeout"} {
		value := g.Env.Getenv(variableOf(name))
		if value == "" || flags.Changed(name) {
			continue
		}
		if err := flags.Lookup(name).Value.Set(value); err != nil {
			right := err.Error()
			if name == "timeout" {
				right = "write a duration like 500ms, 2s or 1m"
			}
			return Usagef("%s=%q is no value of --%s: %s", variableOf(name), value, name, right)
		}
	}
	return nil
}

// GivenBy returns where the value of --prefix or --timeout comes from, if the command line or the environment has it.
func (g *Globals) GivenBy(flag string) (origin string, given bool) {
	switch {
	case g.Changed(flag):
		return "flag --" + flag, true
	case g.Env.Getenv(variableOf(flag)) != "":
		return "environment variable " + variableOf(flag), true
	}
	return "", false
}

// Variables are the environment variables that limitctl reads, each with what it is for.
func Variables() [][2]string {
	return [][2]string{
		{"LIMITCTL_STORE", "the default of --store"},
		{"LIMITCTL_CONTEXT", "the default of --context; set this or LIMITCTL_STORE"},
		{"LIMITCTL_CONFIG", "the default of --config"},
		{"LIMITCTL_PREFIX", "the default of --prefix"},
		{"LIMITCTL_OUTPUT", "the default of --output"},
		{"LIMITCTL_TIMEOUT", "the default of --timeout"},
		{"LIMITCTL_PASSWORD", "the password of the store; a context can name another variable or a file"},
		{"LIMITCTL_COUNT_DENIALS", "true or false (1 or 0): the default of --count-denials"},
		{"LIMITCTL_SERVE_TOKEN", "the access token of serve, instead of --token-file"},
		{"LIMITCTL_DEBUG", "1: print where a bug of limitctl is"},
		{"GITHUB_ACTIONS", "true: annotate the build with what did not pass"},
		{"NO_COLOR", "not empty: print no colours"},
		{"FORCE_COLOR", "not empty, 0 or false: print colours into a pipe, too; so with CLICOLOR_FORCE"},
		{"XDG_CONFIG_HOME", "the folder of limitctl/limitctl.yaml (default ~/.config)"},
		{"XDG_STATE_HOME", "the folder of the audit log, the backups and the default store (default ~/.local/state)"},
	}
}
