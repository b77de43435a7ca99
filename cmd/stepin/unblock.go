package stepin

import (
	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NewUnblockCmd makes limitctl unblock.
func NewUnblockCmd(global *cli.Globals) *cobra.Command {
	o := &overrideRevokeOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "unblock PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "End the blocks of a pattern now",
		Long: `Unblock revokes all blocks that were set for exactly these keys: for PATTERN, or
with --policy for these attributes of the policy. --limit-name keeps the blocks
of other limits. Other overrides and blocks of other patterns stay. If there is
no such block, the exit code is 1.`,
		Example: `  limitctl unblock ip:203.0.113.9
  limitctl unblock 'tenant:acme:*' --yes
  limitctl unblock --policy login ip=203.0.113.9 --yes`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && o.policy == "" {
				return cli.Usagef("unblock takes one PATTERN, that of the block; `limitctl override list` shows them")
			}
			return (&overrideSetOptions{exact: o.exact, policy: o.policy, limitName: o.limitName}).arguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.revokeOf(cmd.Context(), args, "unblock", "block",
				func(override *store.Override) bool { return override.Effect == store.OverrideBlock })
		},
		ValidArgsFunction: cli.Offers(global).Attributes,
	}
	cmd.Flags().BoolVar(&o.exact, "exact", false, "take PATTERN as a subject, as it is typed")
	o.addWhomFlags(cmd)
	o.AddConsentFlags(cmd)
	return cmd
}
