package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// examineTables examines the store's denials and overrides. An error means that the store stopped answering; a
// missing right is a finding.
func examineTables(ctx context.Context, backend store.Store) (found []Finding, err error) {
	if table, has := admin.TablesOf(backend); has {
		denials, err := table.Denials(ctx, admin.DenialMinutes)
		if store.IsAway(err) {
			return found, err
		}
		found = append(found, judgeDenials(&denials, err))
	}
	if table, has := admin.TablesOf(backend); has {
		overrides, _, err := table.Overrides(ctx)
		if store.IsAway(err) {
			return found, err
		}
		found = append(found, judgeOverrides(overrides, err))
	}
	return found, nil
}

// unread returns the finding that something beside the limits cannot be read. The finding of the rights says which
// right is missing.
func unread(check string, err error) Finding {
	f := Finding{Check: check, Status: Warn, Summary: "cannot be read: " + oneLine(err), Advice: "look at the rights above"}
	if errors.Is(err, store.ErrForeign) {
		f.Advice = "delete the key that limitctl did not write"
	}
	return f
}

// judgeDenials judges the denials of the last hour. err says why they could not be read.
func judgeDenials(d *admin.Denials, err error) Finding {
	if err != nil {
		return unread("denials", err)
	}
	total := d.Total()
	f := Finding{Check: "denials", Status: OK, Data: map[string]any{"keys": len(d.Rows), "denied": total, "others": d.Others,
		"lost": d.Lost}}
	switch {
	case total == 0:
		f.Status, f.Summary = Unknown, "none in the last hour, or nobody counts them"
		return f
	default:
		f.Summary = fmt.Sprintf("%s in the last hour, of %s", output.Plural(total, "denial"), output.Plural(len(d.Rows), "key"))
	}
	if d.Others > 0 {
		f.Summary += fmt.Sprintf(", and %s of keys that are not told apart", output.Thousands(d.Others))
	}
	f.Summary += "; limitctl denials shows them"
	if d.Lost {
		f.Status = Warn
		f.Summary += "; some are not counted"
		f.Advice = "it is not known what became of a write: look for time-outs between services and the store"
	}
	return f
}

// judgeOverrides judges the overrides in force. err says why they could not be read.
func judgeOverrides(overrides []store.Override, err error) Finding {
	if err != nil {
		return unread("overrides", err)
	}
	f := Finding{Check: "overrides", Status: OK, Data: map[string]any{"count": len(overrides)}}
	if len(overrides) == 0 {
		f.Summary = "none"
		return f
	}
	first := overrides[0]
	var sweeping []string
	for i := range overrides {
		o := &overrides[i]
		if o.ExpiresAt.Before(first.ExpiresAt) {
			first = *o
		}
		if (o.Effect == store.OverrideBlock || o.Effect == store.OverrideExempt) && isEverybody(o) {
			sweeping = append(sweeping, o.ID)
		}
	}
	f.Summary = fmt.Sprintf("%s in force; %s ends first, in %s (limitctl override list)", output.Plural(len(overrides), "override"),
		output.Printable(first.ID), output.Duration(first.Left.Truncate(time.Second)))
	if len(sweeping) > 0 {
		f.Status = Warn
		f.Summary = fmt.Sprintf("%s everybody: %s; %s in force", "an override blocks or exempts",
			output.Printable(strings.Join(sweeping, ", ")),
			output.Plural(len(overrides), "override"))
		f.Advice = "see limitctl override list, and revoke it with limitctl override revoke ID unless it is meant"
		f.Data["of_everybody"] = sweeping
	}
	return f
}

// isEverybody reports whether an override is for all subjects and all their limits.
func isEverybody(o *store.Override) bool {
	every := func(p store.Pattern) bool { text := p.String(); return text == "" || text == "*" }
	return every(o.Subjects) && every(o.Names) && len(o.Attributes) == 0
}
