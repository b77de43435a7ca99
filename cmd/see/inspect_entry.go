package see

import (
	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// barWidth is the bar's columns in the table.
const barWidth = 10

// barText draws the used share of the limit, or nothing if it is unknown.
func barText(e *admin.Entry) string {
	if !e.RemainingKnown() {
		return ""
	}
	return output.Bar(e.Used, e.Limit.Capacity(), barWidth)
}

// resetText is when a key is unused again, or a warning if it stays for ever. A key that its limiter keeps on purpose
// without an expiry gets its units back anyway.
func resetText(e *admin.Entry) output.Cell {
	switch {
	case e.TTL < 0 && !e.KeptOnPurpose():
		return output.Cell{Text: "no TTL", Style: output.Near}
	case !e.ResetKnown():
		return output.Cell{Text: cli.NotKnown}
	}
	if end, has := e.LastLimit().WindowEnds(); has && e.ResetAfter > 0 {
		return output.Cell{Text: output.Minute(end)}
	}
	return output.Cell{Text: cli.OrDash(e.ResetAfter)}
}

// rowLimitText is the limit of a row, and the limit under the override.
func rowLimitText(row *inspectRow) string {
	o := row.override
	switch {
	case o == nil:
		return limitText(&row.entry)
	case o.Effect == store.OverrideLimit:
		return allowance.Effect(o)
	}
	before := row.entry
	before.Limit = row.limit
	return limitText(&before) + " " + allowance.Effect(o)
}

// limitText is the limit, without the algorithm where the key's name says it.
func limitText(e *admin.Entry) string {
	text := e.LimitText()
	if e.LimitKnown() && e.Key.Name == e.Limit.DefaultName() {
		text = text[len(e.Limit.Algorithm.String())+1:]
	}
	return text
}

func remainingText(e *admin.Entry) string {
	if !e.RemainingKnown() {
		return cli.NotKnown
	}
	return cli.Number(e.Remaining)
}

// closeness is the colour of an entry: calm, near the limit, or at it.
func closeness(e *admin.Entry) output.Style {
	switch share, known := e.Share(); {
	case !known:
		return output.Plain
	case e.AtLimit():
		return output.AtEnd
	case share >= admin.NearShare:
		return output.Near
	}
	return output.Calm
}
