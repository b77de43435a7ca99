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
			return Usagef("%s=%q is no value of --%s; correct it, or give --%s", variableOf(name), value, name, name)
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
