package cmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/pkg/limiter"
)

func newUnblockCmd(global *globalOptions) *cobra.Command {
	o := &overrideRevokeOptions{globalOptions: global}
	exact := false
	cmd := &cobra.Command{
		Use:   "unblock PATTERN",
		Short: "End the blocks of a pattern now",
		Long: `Unblock revokes all blocks that were set for exactly PATTERN, or for the
attributes that "limitctl override list" shows as their subject. Other overrides
stay, and so do blocks of other patterns that match the same subjects. If there
is no such block, the exit code is 1.`,
		Example: `  limitctl unblock ip:203.0.113.9
  limitctl unblock 'tenant:acme:*' --yes`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("unblock takes one PATTERN, that of the block; `limitctl override list` shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := parseSubjects(args[0], exact)
			if err != nil {
				return err
			}
			return runUnblock(cmd.Context(), o, pattern, args[0])
		},
		ValidArgsFunction: completer{global}.blockedPatterns,
	}
	cmd.Flags().BoolVar(&exact, "exact", false, "take PATTERN as a subject, even if it holds glob characters")
	o.addConsentFlags(cmd)
	return cmd
}

// runUnblock ends the blocks of a pattern, or of what the list of overrides shows as text.
func runUnblock(ctx context.Context, o *overrideRevokeOptions, pattern limiter.Pattern, text string) error {
	s, err := o.settingsToChange(ctx)
	if err != nil {
		return err
	}
	if err := o.check(s.access(), o.env.InIsTerminal, "unblock", "ends blocks", ""); err != nil {
		return err
	}
	store, where, err := o.open()
	if err != nil {
		return err
	}
	defer store.Close()
	runner := o.runner(s, store, where)
	overrides, err := runner.Overrides(ctx)
	if err != nil && !errors.Is(err, limiter.ErrForeign) {
		return err
	}
	plan := &operation.RevokePlan{Consent: o.given()}
	around := 0 // blocks of other patterns that may be about the same subjects
	for i := range overrides {
		override := &overrides[i]
		switch {
		case override.Effect != limiter.OverrideBlock:
		case samePattern(override.Subjects, pattern) && len(override.Attributes) == 0, whom(override) == text:
			plan.IDs = append(plan.IDs, override.ID)
		case overlaps(override.Subjects, pattern):
			around++
		}
	}
	if around > 0 {
		o.note("%s of another pattern stays in force; see `limitctl override list`", plural(int64(around), "block"))
	}
	if len(plan.IDs) == 0 {
		o.note("no block of exactly %s is in force", pattern)
		return errDenied
	}
	return o.revoke(ctx, runner, plan)
}

// samePattern reports whether two patterns select the same by what is written.
func samePattern(a, b limiter.Pattern) bool {
	subject, exact := a.Exact()
	other, otherExact := b.Exact()
	return exact == otherExact && subject == other && (exact || a.String() == b.String())
}

// overlaps reports whether there can be a subject that both patterns select. The zero pattern selects all.
func overlaps(a, b limiter.Pattern) bool {
	if a.IsZero() || b.IsZero() {
		return true
	}
	subject, exact := a.Exact()
	other, otherExact := b.Exact()
	switch {
	case exact:
		return b.Match(subject)
	case otherExact:
		return a.Match(other)
	}
	return globsMeet(globParts(a.String()), globParts(b.String()))
}

// globParts takes a glob apart: "*", "?" for one character or a set of them, and a character with a
// backslash before it for itself.
func globParts(glob string) (parts []string) {
	for runes := []rune(glob); len(runes) > 0; {
		switch c := runes[0]; {
		case c == '*':
			parts, runes = append(parts, "*"), runes[1:]
		case c == '?':
			parts, runes = append(parts, "?"), runes[1:]
		case c == '[':
			end := 1
			for end < len(runes) && runes[end] != ']' {
				if runes[end] == '\\' {
					end++
				}
				end++
			}
			parts, runes = append(parts, "?"), runes[min(end+1, len(runes)):]
		case c == '\\' && len(runes) > 1:
			parts, runes = append(parts, `\`+string(runes[1])), runes[2:]
		default:
			parts, runes = append(parts, `\`+string(c)), runes[1:]
		}
	}
	return parts
}

// globsMeet reports whether there is a text that both globs match. Of a set it takes any character.
func globsMeet(a, b []string) bool {
	meet := make([]bool, len(b)+1) // of what follows in a with what follows in b
	meet[len(b)] = true
	for j := len(b) - 1; j >= 0; j-- {
		meet[j] = meet[j+1] && b[j] == "*"
	}
	for i := len(a) - 1; i >= 0; i-- {
		diagonal := meet[len(b)]
		meet[len(b)] = meet[len(b)] && a[i] == "*"
		for j := len(b) - 1; j >= 0; j-- {
			below := meet[j]
			switch {
			case a[i] == "*" || b[j] == "*":
				meet[j] = below || meet[j+1]
			default:
				meet[j] = diagonal && (a[i] == "?" || b[j] == "?" || a[i] == b[j])
			}
			diagonal = below
		}
	}
	return meet[0]
}
