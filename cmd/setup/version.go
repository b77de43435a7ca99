package setup

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
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
	// Commit and Date are empty if the build does not say them, as that of go install.
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionAnswer(env *cli.Env) *versionAnswer {
	commit, date := env.Source()
	return &versionAnswer{output.SchemaVersion, env.ProgramVersion(), commit, date, runtime.Version(),
		runtime.GOOS + "/" + runtime.GOARCH}
}

// Print implements output.Answer.
func (v *versionAnswer) Print(p *output.Printer) {
	source := ""
	if v.Commit != "" {
		source = "commit " + v.Commit[:min(12, len(v.Commit))] + " of " + v.Date + ", "
	}
	fmt.Fprintf(p.Out, "limitctl %s (%s%s, %s)\n", v.Version, source, v.Go, v.Platform)
}
