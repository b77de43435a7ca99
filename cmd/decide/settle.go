package decide

import (
	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NewSettleCmd makes limitctl settle.
func NewSettleCmd(global *cli.Globals) *cobra.Command {
	o := &options{Globals: global}
	cmd := &cobra.Command{
		Use: "settle KEY --limit [ALGORITHM:]COUNT/PERIOD --token TEXT --cost N | " +
			"settle --policy NAME ATTRIBUTE=VALUE... --token TEXT --cost N",
		Short: "Correct a consume with a token to its real cost",
		Long: `Settle corrects what "consume --token TEXT" took to the real cost: --cost is
what it should have taken in all. It takes what is missing, even if that does
not fit, or gives back what is too much. Key and limits must be those of the
consume; in a policy, a limit with a fixed cost keeps what it took.

A token is settled once. The same cost again gets the same answer, so a retry is
safe; another one is refused. The exit code is 1 if the token is not known:
nothing was allowed with it, or it has expired.`,
		Example: `  limitctl consume llm --limit 9000/m --cost 2300 --token a1 && limitctl settle llm --limit 9000/m --token a1 --cost 1874
  limitctl consume llm --limit 9000/m --cost 2300 --token a2 && limitctl settle llm --limit 9000/m --token a2 --cost 0`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			for _, name := range []string{"token", "cost"} {
				if !cmd.Flags().Changed(name) {
					return cli.Usagef(
						"no %s given; settle needs --token TEXT, which is that of the consume, and --cost N, the "+
							"real cost",
						name)
				}
			}
			if o.request, err = o.requestFlags.Request(cmd, global, store.Settle, args); err != nil {
				return err
			}
			ctx := cmd.Context()
			opened, _, err := openNamed(o.Globals, store.Settle, o.request)
			if err != nil {
				return err
			}
			backend := layers.Stack(opened, layers.Layers{
				Budget: o.Timeout, Overrides: overridesOf(ctx, o.Globals, opened, o.request)})
			defer backend.Close()
			if o.request.Decisions, err = decide(ctx, backend, store.Settle, o.request.Requests); err != nil {
				return err
			}
			o.request.Charges = true
			return printDecision(o.Globals, &decisionAnswer{
				verb: "settled at " + o.Cost.Text(), LimitRequest: o.request,
				again: "already settled: nothing was changed"})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddFlags(cmd, global)
	o.addTokenFlag(cmd, "`TEXT` of the token that the units were taken with")
	cmd.Flags().Lookup("cost").Usage = "`N` units of the real cost, 0 or more, or tokens=N of the limits of a policy " +
		"whose cost is " +
		"tokens; repeat it for several"
	cmd.Flags().Lookup("cost").DefValue = "0" // so that help shows none; it has to be given
	cmd.Flags().Lookup("policy").Usage =
		"settle in the limits of the policy of that `NAME`; the arguments are attributes, such as ip=203.0.113.9"
	return cmd
}
