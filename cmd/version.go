package cmd

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

func newVersionCmd(global *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  limitctl version\n  limitctl version -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return global.print(newVersionAnswer(global.env.Version))
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

func newVersionAnswer(version string) *versionAnswer {
	if info, ok := debug.ReadBuildInfo(); ok { // set by `go install`
		version = cmp.Or(version, info.Main.Version)
	}
	return &versionAnswer{output.SchemaVersion, cmp.Or(version, "(devel)"), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// Document implements output.Answer.
func (v *versionAnswer) Document() any { return v }

// Lines implements output.Answer.
func (v *versionAnswer) Lines() []any { return []any{v} }

// Records implements output.Answer.
func (v *versionAnswer) Records() [][]string {
	return [][]string{{"version", "go", "platform"}, {v.Version, v.Go, v.Platform}}
}

// Print implements output.Answer.
func (v *versionAnswer) Print(p *output.Printer) {
	fmt.Fprintf(p.Out, "limitctl %s (%s, %s)\n", v.Version, v.Go, v.Platform)
}
