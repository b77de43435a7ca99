package setup

import (
	"fmt"
	"runtime"
	"runtime/debug"

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
	// Commit and Date are empty if the program was not built in a clone, as by go install of a version.
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionAnswer(env *cli.Env) *versionAnswer {
	v := &versionAnswer{SchemaVersion: output.SchemaVersion, Version: env.ProgramVersion(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				v.Commit = setting.Value
			case "vcs.time":
				v.Date = setting.Value
			}
		}
	}
	return v
}

// Print implements output.Answer.
func (v *versionAnswer) Print(p *output.Printer) {
	source := ""
	if v.Commit != "" {
		source = "commit " + v.Commit[:min(12, len(v.Commit))] + " of " + v.Date + ", "
	}
	fmt.Fprintf(p.Out, "limitctl %s (%s%s, %s)\n", v.Version, source, v.Go, v.Platform)
}
