package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// shownOverrides is how many overrides are named.
const shownOverrides = 3

// AddOverrides adds to r what is to be said of a store's overrides.
func (r *Report) AddOverrides(ctx context.Context, store limiter.Store) {
	table, has := limiter.OverrideTableOf(store)
	if !has || !r.Reached {
		return
	}
	overrides, _, err := table.Overrides(ctx)
	r.add(judgeOverrides(overrides, err))
	r.sort()
}

// judgeOverrides says how many overrides are in force, and which end last. A block or an
// exemption of everybody is something that somebody may have forgotten.
func judgeOverrides(overrides []limiter.Override, err error) Finding {
	found := Finding{Check: "overrides", Status: OK, Summary: "no override is in force",
		Data: map[string]any{"count": len(overrides), "blocks": 0, "exemptions": 0}}
	if err != nil {
		found.Status, found.Summary = Warn, "overrides cannot be read: "+err.Error()
		found.Advice = "the user needs the rights of a reader under the prefix and !; without them overrides do not apply"
		return found
	}
	if len(overrides) == 0 {
		return found
	}
	overrides = slices.Clone(overrides)
	slices.SortFunc(overrides, func(a, b limiter.Override) int { return b.ExpiresAt.Compare(a.ExpiresAt) })
	blocks, exemptions := 0, 0
	var named []string
	for i := range overrides {
		o := &overrides[i]
		switch o.Effect {
		case limiter.OverrideBlock:
			blocks++
		case limiter.OverrideExempt:
			exemptions++
		case limiter.OverrideLimit, limiter.OverrideTimes, limiter.OverrideAdd:
		}
		if len(named) < shownOverrides {
			named = append(named, fmt.Sprintf("%s (%s, %s left, by %s)", o.ID, o.Effect, output.Duration(o.Left.Truncate(time.Second)), o.By))
		}
		if o.Subjects.String() == "*" && o.Names.IsZero() && o.Effect >= limiter.OverrideBlock {
			found.Status = Warn
			found.Advice = fmt.Sprintf("override %s is a word about everybody (%s); end it with limitctl override revoke %s once it is not needed",
				o.ID, o.Effect, o.ID)
		}
	}
	found.Data["blocks"], found.Data["exemptions"] = blocks, exemptions
	found.Summary = fmt.Sprintf("%s in force", plural(int64(len(overrides)), "override"))
	if blocks+exemptions > 0 {
		found.Summary += fmt.Sprintf(", %s and %s among them", plural(int64(blocks), "block"), plural(int64(exemptions), "exemption"))
	}
	found.Summary += ": " + strings.Join(named, ", ")
	if len(overrides) > shownOverrides {
		found.Summary += ", …"
	}
	return found
}
