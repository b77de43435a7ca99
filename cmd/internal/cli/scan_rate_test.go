package cli

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/cmd/internal/config"
)

// In a protected context a scan is paced unless the flag says otherwise, also that there is no bound.
func TestTheScanRateOfAProtectedContext(t *testing.T) {
	for _, test := range []struct {
		args            []string
		open, protected int
	}{{nil, 0, 20_000}, {[]string{"--rate-limit-scan", "0"}, 0, 0}, {[]string{"--rate-limit-scan", "30000"}, 30_000, 30_000}} {
		for is, want := range map[bool]int{false: test.open, true: test.protected} {
			var rate ScanRate
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			rate.Add(flags)
			if err := flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			g := &Globals{Chosen: &Settings{Context: &config.Context{Name: "prod", Protected: is}}}
			if got, err := rate.KeysPerSecond(g); got != want || err != nil {
				t.Errorf("%q, protected %v: %d, %v", test.args, is, got, err)
			}
		}
	}
}
