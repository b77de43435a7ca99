package ui

import (
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Override is everything about an override, in lines: what it does until when, whom it is about, and who set it and why.
func Override(o *store.Override, now time.Time) []string {
	left := output.Duration(o.ExpiresAt.Sub(now).Truncate(time.Second))
	by := "set"
	if o.By != "" {
		by += " by " + output.Printable(o.By)
	}
	if o.Reason != "" {
		by += ": " + output.Printable(o.Reason)
	}
	return []string{allowance.Effect(o) + " until " + Until(o.ExpiresAt, now) + ", in " + left,
		"for " + allowance.WhomText(o) + " (" + output.Printable(o.ID) + ")", by}
}

// Wrapped are lines broken to so many columns.
func Wrapped(lines []string, columns int) (all []string) {
	for _, text := range lines {
		all = append(all, output.Wrap(text, max(20, columns))...)
	}
	return all
}
