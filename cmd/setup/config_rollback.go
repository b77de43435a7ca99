package setup

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
)

func newRollbackCmd(global *cli.Globals) *cobra.Command {
	o := &options{Globals: global, command: "config rollback"}
	cmd := &cobra.Command{
		Use:   "rollback [N]",
		Short: "Bring an earlier configuration back, as a new version",
		Long: `Rollback publishes the text of version N, or of the one before that in force, as
the next version, after the same preview and question as config publish. Keys
whose limit gets lower keep what they have used.`,
		Example: `  limitctl config rollback -m "too tight for acme" --context prod
  limitctl config rollback 12 -m "as on Friday" --yes`,
		Args: cli.AtMostOneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			number := int64(0)
			if len(args) > 0 {
				var err error
				if number, err = strconv.ParseInt(args[0], 10, 64); err != nil || number < 1 {
					return cli.Usagef("%q is no version; give a number from `limitctl config history`", args[0])
				}
			}
			return o.rollback(cmd.Context(), number)
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *options) rollback(ctx context.Context, number int64) error {
	return o.change(ctx, func(p *place) (*change, error) {
		number := number
		if number == 0 {
			inForce, err := p.state.InForce()
			if err != nil {
				return nil, err
			}
			if number = p.state.Before(); number == 0 {
				return nil, cli.Usagef("version %d is in force, and there is no version before it to bring back",
					inForce)
			}
		}
		if number == p.state.Head.Version {
			return nil, cli.Usagef("version %d is the one in force; give an earlier one from `limitctl config history`",
				number)
		}
		v, err := p.fetch(ctx, o.Globals, number)
		if err != nil {
			return nil, err
		}
		c, err := newChange(fmt.Sprintf("version %d", number), v.Text)
		if c != nil {
			c.of = number
		}
		return c, err
	})
}
