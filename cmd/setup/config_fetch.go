package setup

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
)

func newFetchCmd(global *cli.Globals) *cobra.Command {
	var number int64
	cmd := &cobra.Command{
		Use:   "fetch",
		Short: "Print a published configuration",
		Long: `Fetch prints the text of the version in force, or of another one that the store
keeps. What it prints is a configuration: config validate, config diff and
simulate take it.`,
		Example: `  limitctl config fetch > published.yaml
  limitctl config fetch --version 12 -o json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if number < 0 || cmd.Flags().Changed("version") && number == 0 {
				return cli.Usagef("--version %d is no version; they count from 1", number)
			}
			return runFetch(cmd.Context(), global, number)
		},
	}
	cli.NumberFlag(cmd.Flags(), &number, "version", "", 0, "print version `N` (default the one in force)")
	return cmd
}

func runFetch(ctx context.Context, g *cli.Globals, number int64) error {
	p, err := openToRead(ctx, g)
	if err != nil {
		return err
	}
	defer p.backend.Close()
	if number == 0 {
		if number, err = p.state.InForce(); err != nil {
			return err
		}
	}
	v, err := p.fetch(ctx, g, number)
	if err != nil {
		return err
	}
	return g.Print(&fetchAnswer{SchemaVersion: output.SchemaVersion, Version: v.Number,
		InForce: v.Number == p.state.Head.Version, Text: string(v.Text), data: g.Env.Out})
}

// fetchAnswer is the answer of fetch.
type fetchAnswer struct {
	SchemaVersion int    `json:"schema_version"`
	Version       int64  `json:"version"`
	InForce       bool   `json:"in_force"` // whether it decides now
	Text          string `json:"text"`
	data          io.Writer
}

// Print implements output.Answer: the text alone, for a file.
func (a *fetchAnswer) Print(*output.Printer) { io.WriteString(a.data, a.Text) }
