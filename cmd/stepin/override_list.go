package stepin

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func newOverrideListCmd(global *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show the overrides that are in force",
		Long: `List shows the overrides in force: to whom they apply, what they do, how long
they last, who set them and why. Where several match a key, the first applies;
limitctl inspect shows which one. Those that have ended are in limitctl audit.`,
		Example: `  limitctl override list
  limitctl override list -o json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			runner, s, err := openRunner(global, true)
			if err != nil {
				return err
			}
			defer runner.Store.Close()
			overrides, err := runner.Overrides(cmd.Context())
			if err != nil && !errors.Is(err, store.ErrForeign) {
				return err
			}
			answer := &overrideAnswer{now: global.Env.Now(),
				overrides: store.NewOverrideList(overrides).All()} // the one that applies first
			if len(answer.overrides) == 0 && err == nil && !global.Quiet {
				global.Note("no override is in force in %s", s.Place(runner.Place.Store))
			}
			return errors.Join(global.Print(answer), err)
		},
	}
}
