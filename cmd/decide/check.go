package decide

import (
	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NewCheckCmd makes limitctl check.
func NewCheckCmd(global *cli.Globals) *cobra.Command {
	o := &options{Globals: global}
	cmd := &cobra.Command{
		Use:   "check KEY --limit [ALGORITHM:]COUNT/PERIOD | check --policy NAME ATTRIBUTE=VALUE...",
		Short: "Say whether a request would be allowed, and write nothing",
		Long: `Check says whether KEY could take --cost units now, and takes none. The exit
code is the answer: 0 yes, 1 no. With --policy the limits are those of a policy,
and attributes say who is limited.`,
		Example: `  limitctl check user:42 --limit 10/1m
  limitctl check user:42 --limit 10/1m --limit 100/1h --cost 5 -o json
  limitctl check --policy login ip=203.0.113.9 email=a@example.com
  if limitctl check -q deploys --limit 3/1h; then echo "room for one more"; fi
  limitctl check -q user:42 --limit 10/1m --on-error allow`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.request, err = o.requestFlags.Request(cmd, global, store.Peek, args); err != nil {
				return err
			}
			ctx := cmd.Context()
			backend, err := openToDecide(ctx, o.Globals, store.Peek, o.onError, nil, o.request)
			if err != nil {
				return err
			}
			defer backend.Close()
			if o.request.Decisions, err = decide(ctx, backend, store.Peek, o.request.Requests); err != nil {
				return err
			}
			return printDecision(o.Globals, &decisionAnswer{verb: "allowed", LimitRequest: o.request})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddFlags(cmd, global)
	addOnErrorFlag(cmd, &o.onError)
	return cmd
}
