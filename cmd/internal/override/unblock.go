package override

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NewUnblockCmd makes limitctl unblock.
func NewUnblockCmd(global *cli.Globals) *cobra.Command {
	o := &overrideRevokeOptions{Globals: global}
	exact := false
	cmd := &cobra.Command{
		Use:   "unblock PATTERN",
		Short: "End the blocks of a pattern now",
		Long: `Unblock revokes all blocks that were set for exactly PATTERN, or for the
attributes that "limitctl override list" shows as their subject. It keeps other
overrides, and blocks of other patterns that match the same subjects. If there
is no such block, the exit code is 1.`,
		Example: `  limitctl unblock ip:203.0.113.9
  limitctl unblock 'tenant:acme:*' --yes`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("unblock takes one PATTERN, that of the block; `limitctl override list` shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := cli.ParseSubjects(args[0], exact)
			if err != nil {
				return err
			}
			return runUnblock(cmd.Context(), o, pattern, args[0])
		},
		ValidArgsFunction: completer{global}.blockedPatterns,
	}
	cmd.Flags().BoolVar(&exact, "exact", false, "take PATTERN as a subject, even if it holds glob characters")
	o.AddConsentFlags(cmd)
	return cmd
}

// runUnblock ends the blocks of a pattern, or those that the list of overrides shows as text.
func runUnblock(ctx context.Context, o *overrideRevokeOptions, pattern store.Pattern, text string) error {
	s, err := o.SettingsToChange(ctx)
	if err != nil {
		return err
	}
	if err := o.Check(s.Access(), o.Env.InIsTerminal, "unblock", "ends blocks", ""); err != nil {
		return err
	}
	backend, where, err := o.Open()
	if err != nil {
		return err
	}
	defer backend.Close()
	runner := cli.NewRunner(o.Globals, s, backend, where)
	overrides, err := runner.Overrides(ctx)
	if err != nil && !errors.Is(err, store.ErrForeign) {
		return err
	}
	plan := &operation.RevokePlan{Consent: o.Given()}
	around := 0 // blocks of other patterns that overlap
	for i := range overrides {
		override := &overrides[i]
		switch {
		case override.Effect != store.OverrideBlock:
		case samePattern(override.Subjects, pattern) && len(override.Attributes) == 0, allowance.Whom(override) == text:
			plan.IDs = append(plan.IDs, override.ID)
		case override.Subjects.Overlaps(pattern):
			around++
		}
	}
	if around > 0 {
		o.Note("still in force: %s of another pattern; see `limitctl override list`", cli.CountOf(int64(around), "block", "blocks"))
	}
	if len(plan.IDs) == 0 {
		o.Note("no block of exactly %s is in force", pattern)
		return cli.ErrDenied
	}
	return o.revoke(ctx, runner, plan)
}

// samePattern reports whether two patterns have the same text.
func samePattern(a, b store.Pattern) bool {
	subject, exact := a.Exact()
	other, otherExact := b.Exact()
	return exact == otherExact && subject == other && (exact || a.String() == b.String())
}
