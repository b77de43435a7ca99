package setup

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/ratelimitfile"
)

func newConfigImportCmd(global *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "import envoy FILE...",
		Short: "Turn the limits of envoyproxy/ratelimit into policies",
		Long: `Import reads files of envoyproxy/ratelimit, and prints the policies and the
section envoy of a limitctl.yaml with the same limits. What has no equal is a
warning with its line. docs/serve-envoy.md leads through the whole move.`,
		Example: `  limitctl config import envoy config/config.yaml > limitctl.yaml
  limitctl config import envoy config/*.yaml -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || args[0] != "envoy" {
				return cli.Usagef("say what is imported, and from which files: limitctl config import envoy FILE...")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runConfigImport(global, args[1:]) },
	}
}

func runConfigImport(g *cli.Globals, paths []string) error {
	var files []ratelimitfile.File
	for _, path := range paths {
		data, err := readConfig(path)
		if err != nil {
			return err
		}
		files = append(files, ratelimitfile.File{Path: path, Data: data})
	}
	rules, mistakes := ratelimitfile.Read(files)
	if len(mistakes) > 0 {
		return &config.Mistakes{List: mistakes}
	}
	answer := &importAnswer{SchemaVersion: output.SchemaVersion, Policies: len(rules.Policies),
		Configuration: rules.Text(), Remarks: append([]config.Mistake{}, rules.Remarks...)}
	for _, descriptors := range rules.Envoy {
		answer.Descriptors += len(descriptors)
	}
	for _, r := range rules.Remarks {
		g.Warn(r.String())
	}
	if err := g.Print(answer); err != nil {
		return err
	}
	if !g.Quiet {
		g.Note("%s for %s; %s without an equal", output.Count(answer.Policies, "policy", "policies"),
			output.Count(answer.Descriptors, "descriptor"), output.Count(len(answer.Remarks), "setting"))
	}
	return nil
}

// importAnswer is the answer of config import.
type importAnswer struct {
	SchemaVersion int `json:"schema_version"`
	Policies      int `json:"policies"`
	Descriptors   int `json:"descriptors"` // how many were read
	// Configuration is the text of a limitctl.yaml.
	Configuration string           `json:"configuration"`
	Remarks       []config.Mistake `json:"remarks"` // what has no equal, or means something else
}

// Records implements output.Answer.
func (a *importAnswer) Records() [][]string { return output.Rows(a.Remarks) }

// Print implements output.Answer.
func (a *importAnswer) Print(p *output.Printer) {
	for line := range strings.Lines(a.Configuration) {
		p.Line("%s", strings.TrimSuffix(line, "\n"))
	}
}
