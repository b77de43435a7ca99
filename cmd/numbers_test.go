package cmd

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/cli"
)

// Numbers and durations are read alike in every flag.
func TestFlagsHaveOneGrammarOfNumbersAndDurations(t *testing.T) {
	right := map[string]map[string]string{
		"number":  {"1k": "1000", "1K": "1000", "2M": "2000000", "1_000": "1000", "010": "10"},
		"decimal": {"1k": "1000", "1_000": "1000", "0.5": "0.5", "010": "10"},
		"period": {"1d": "24h0m0s", "1d12h": "36h0m0s", "week": "168h0m0s", "5min": "5m0s", "1.5s": "1.5s",
			"0s": "0s"},
	}
	wrong := map[string][]string{
		"number":  {"", "0x10", "1.5", "1e3", "1m", "1_00", "k", "99999999999999999999"},
		"decimal": {"", "0x10", "1e3", "-1", "Inf", ".5", "1.", "99999999999999999999"},
		"period":  {"", "10", "-1s", "soon"},
	}
	seen := map[string]int{}
	check := func(cmd *cobra.Command, f *pflag.Flag) {
		kind := f.Value.Type()
		seen[kind]++
		switch kind {
		case "bool", "string", "stringArray", "stringSlice", "format", "cost", "intSlice": // the last has codes
		case "number", "decimal", "period":
			for text, want := range right[kind] {
				if err := f.Value.Set(text); err != nil || f.Value.String() != want {
					t.Errorf("%s --%s %s is %s, %v, want %s", cmd.CommandPath(), f.Name, text, f.Value, err, want)
				}
			}
			for _, text := range wrong[kind] {
				if err := f.Value.Set(text); err == nil || !strings.HasPrefix(err.Error(), "--"+f.Name+" ") {
					t.Errorf("%s --%s %q is %s, %v", cmd.CommandPath(), f.Name, text, f.Value, err)
				}
			}
		default:
			t.Errorf("%s --%s is read as %s, with a grammar of its own", cmd.CommandPath(), f.Name, kind)
		}
	}
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { check(cmd, f) })
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(newRootCmd(&cli.Globals{Env: newWorld(t).Env}))
	if seen["number"] < 20 || seen["decimal"] < 1 || seen["period"] < 6 {
		t.Errorf("there are %v", seen)
	}
}
