package cmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/config"
)

// plainSecrets are fields whose values are secrets, or hold some, as a source writes them.
var plainSecrets = []string{"header:Authorization", "header:Proxy-Authorization", "header:X-Api-Key", "header:Cookie"}

// warnOfSecrets warns of policies that would put a secret into keys as it is.
func warnOfSecrets(g *cli.Globals, c *config.Config) {
	for _, p := range c.Policies {
		attributes := c.HTTP.Rules[p.Name].Attributes
		for _, name := range slices.Sorted(maps.Keys(attributes)) {
			source := attributes[name]
			if text := source.String(); slices.Contains(plainSecrets, text) || strings.HasPrefix(text, "cookie:") {
				g.Warn(fmt.Sprintf("policy %q takes %s from %s, a secret, which then stands in keys, backups and the audit as it is; "+
					"write hash:%[3]s", p.Name, name, text))
			}
		}
	}
}
