package figures

import (
	"maps"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Until says when something ends, by the clock where that is less than a day away.
func Until(end, now time.Time) string {
	end = end.In(now.Location())
	if end.Sub(now) < 20*time.Hour {
		return end.Format("15:04")
	}
	return end.Format("Jan 2 15:04")
}

// OverrideTexts say what an override does, and until when.
func OverrideTexts(o *store.Override, now time.Time) (effect, end string) {
	return allowance.Effect(o), " until " + Until(o.ExpiresAt, now)
}

// OverrideText is everything about an override, in lines.
func OverrideText(o *store.Override, now time.Time) []string {
	words := allowance.Effect(o) + " until " + Until(o.ExpiresAt, now) + ", in " +
		output.Duration(o.ExpiresAt.Sub(now).Truncate(time.Second))
	about := "for " + output.Printable(o.Subjects.String())
	if o.Subjects.IsZero() {
		about = "for all subjects"
	}
	for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
		about += " " + name + "=" + output.Printable(o.Attributes[name])
	}
	if !o.Names.IsZero() {
		about += ", limit " + output.Printable(o.Names.String())
	}
	lines := []string{words, about + " (" + output.Printable(o.ID) + ")"}
	by := "set"
	if o.By != "" {
		by += " by " + output.Printable(o.By)
	}
	if o.Reason != "" {
		by += ": " + output.Printable(o.Reason)
	}
	return append(lines, by)
}

// BlockSign marks what is under a block.
const BlockSign = "⊘"

// OverrideSign marks rows under an override.
func OverrideSign(o *store.Override) string {
	switch {
	case o.Effect == store.OverrideBlock:
		return BlockSign
	case o.Effect == store.OverrideExempt:
		return "∞"
	}
	return "±"
}
