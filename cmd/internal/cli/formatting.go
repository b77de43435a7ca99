package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// namesAnnotation marks the commands that have -o name.
const namesAnnotation = "limitctl-names"

// ListsNames gives a command -o name. Its CSV has a column of names.
func ListsNames(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{namesAnnotation: "true"}
	return cmd
}

// ReadFilter reads --jq, and checks -o name, before the command does anything.
func (g *Globals) ReadFilter(cmd *cobra.Command) (err error) {
	if g.Format == output.Names && cmd.Annotations[namesAnnotation] == "" {
		return Usagef("-o name is for commands that list things, such as inspect, denials and override list; for `%s` give one of %s",
			cmd.CommandPath(), strings.Join(output.Formats(), ", "))
	}
	if !g.Changed("jq") {
		return nil
	}
	if g.Changed("output") && g.Format != "json" {
		return Usagef("--jq is for the JSON document; leave out -o %s", g.Format.String())
	}
	if g.Filter, err = output.JQ(g.JQ); err != nil {
		return Usagef("--jq: %s", err)
	}
	g.Format = "json"
	return nil
}
