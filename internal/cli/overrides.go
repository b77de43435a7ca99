package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Ending says until when an override is in force, who set it and why.
func Ending(o *store.Override, now time.Time) string {
	return fmt.Sprintf("until %s (%s left), %s", Clock(o.ExpiresAt, now), output.Duration(o.Left.Truncate(time.Second)), setBy(o))
}

// setBy says who set an override, and why.
func setBy(o *store.Override) string {
	text := "by " + output.Printable(o.By)
	if reason := strings.TrimSpace(o.Reason); reason != "" {
		text += ": " + output.Printable(reason)
	}
	return text
}

// PrintApplied prints each override that applies, once. Some may be nil.
func PrintApplied(p *output.Printer, applied []*store.Override, now time.Time) {
	said := map[string]bool{}
	for _, o := range applied {
		if o == nil || said[o.ID] {
			continue
		}
		said[o.ID] = true
		p.Line("override %s applies: %s %s", o.ID, allowance.Effect(o), Ending(o, now))
	}
}

// OperatorsText names an operator's override in a column of notes.
func OperatorsText(o *store.Override) string { return "operator's " + allowance.Effect(o) }

// WarnOfOverrides says that overrides do not apply, if err is why they could not be read.
func WarnOfOverrides(g *Globals, err error) {
	if err != nil && !g.Quiet {
		g.Note("warning: overrides cannot be read, and do not apply: %s", Message(err))
	}
}

// OverridesOf reads the overrides that are in force in a store. With an error it also returns a
// list, of the overrides that it could read.
func OverridesOf(ctx context.Context, g *Globals, backend store.Store) (*store.OverrideList, error) {
	table, has := admin.TablesOf(backend)
	if !has {
		return store.NewOverrideList(nil), nil
	}
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	overrides, _, err := table.Overrides(ctx)
	return store.NewOverrideList(overrides), err
}

// OverrideMark marks keys to which an operator's override applies. The lines below the table name it.
const OverrideMark = "⚑"

// Clock writes an instant as people say it: the time of day, with the date unless it is
// that of now, and the zone.
func Clock(t, now time.Time) string {
	t = t.In(now.Location())
	layout := "2006-01-02 15:04:05 MST"
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		layout = "15:04:05 MST"
	}
	return t.Format(layout)
}
