package setup

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// NewVersionCmd makes limitctl version.
func NewVersionCmd(global *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  limitctl version\n  limitctl version -o json",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return global.Print(newVersionAnswer(global.Env))
		},
	}
}

// versionAnswer is what this program is.
type versionAnswer struct {
	SchemaVersion int    `json:"schema_version"`
	Version       string `json:"version"`
	Go            string `json:"go"`
	Platform      string `json:"platform"`
}

func newVersionAnswer(env *cli.Env) *versionAnswer {
	return &versionAnswer{output.SchemaVersion, env.ProgramVersion(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// Records implements output.Answer.
func (v *versionAnswer) Records() [][]string {
	return [][]string{{"version", "go", "platform"}, {v.Version, v.Go, v.Platform}}
}

// Print implements output.Answer.
func (v *versionAnswer) Print(p *output.Printer) {
	fmt.Fprintf(p.Out, "limitctl %s (%s, %s)\n", v.Version, v.Go, v.Platform)
}
