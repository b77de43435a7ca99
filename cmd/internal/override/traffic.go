package override

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// traffic is what overrides do now: the denials of the keys that each applies to, and what each lets through.
type traffic struct {
	known bool // it was read
	// exact: all denials are counted by their keys. Lost: some are counted nowhere, or some of what was let through.
	exact, lost bool
	// over is the time in which they were counted.
	over time.Duration
	// denied counts denials by the ID of the override, and letThrough what it let through.
	denied, letThrough map[string]int64
	// isNew has those that were set or extended within that time, and deniesSince those of them that deny since: some of
	// the denials may be from before, so there is no rate.
	isNew, deniesSince map[string]bool
}

// trafficSpan is the time over which denials are counted. A table adds the part of the minute before.
const trafficSpan = time.Minute

// readTraffic reads what overrides do now. Denials that cannot be read are not known.
func readTraffic(ctx context.Context, g *cli.Globals, backend store.Store, overrides []store.Override) traffic {
	table, has := admin.DenialTableOf(backend)
	if !has || len(overrides) == 0 {
		return traffic{}
	}
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	denials, err := table.Denials(ctx, trafficSpan)
	if err != nil {
		return traffic{}
	}
	return trafficOf(&denials, overrides)
}

// trafficOf divides denials among the overrides that apply to their keys.
func trafficOf(denials *admin.Denials, overrides []store.Override) traffic {
	now := denials.Now.Time()
	t := traffic{known: true, exact: denials.Exact(), lost: denials.Lost, over: trafficSpan + now.Sub(now.Truncate(trafficSpan)),
		denied: map[string]int64{}, letThrough: map[string]int64{}, isNew: map[string]bool{}, deniesSince: map[string]bool{}}
	for i := range overrides {
		if overrides[i].CreatedAt.After(now.Add(-t.over)) {
			t.isNew[overrides[i].ID] = true
		}
	}
	for _, l := range denials.LetThrough {
		t.letThrough[l.Override] = l.Count
	}
	list := store.NewOverrideList(overrides)
	for _, row := range denials.Rows {
		o := list.For(row.Key)
		if o == nil || row.LastAt.Time().Before(o.CreatedAt) {
			continue
		}
		switch count := deniedUnder(o, &row); {
		case count == 0:
		case t.isNew[o.ID]:
			t.deniesSince[o.ID] = true
		default:
			t.denied[o.ID] += count
		}
	}
	return t
}

// deniedUnder is how many denials of a row can be of an override that applies now. What another block denied, which has
// ended since, is not of this one.
func deniedUnder(o *store.Override, row *admin.Denied) int64 {
	switch {
	case o.Effect != store.OverrideBlock:
		return row.Count - row.Blocked
	case row.Override != "" && row.Override != o.ID:
		return 0
	}
	return row.Count
}

// rate is the denials a second under an override. It is unknown for one that has just been set and denies.
func (t *traffic) rate(id string) (perSecond float64, known bool) {
	if !t.known || t.deniesSince[id] {
		return 0, false
	}
	return float64(t.denied[id]) / t.over.Seconds(), true
}

// letThroughRate is what an override lets through a second; for one that has just been set, at least.
func (t *traffic) letThroughRate(id string) (perSecond float64) {
	if t.letThrough[id] == 0 {
		return 0
	}
	return float64(t.letThrough[id]) / t.over.Seconds()
}

// cell is text for a table. A dash says that nothing is known to be denied or let through, since not all services may
// count it.
func (t *traffic) cell(id string) string {
	if !t.known {
		return cli.NotKnown
	}
	return cmp.Or(t.text(id), "-")
}

// text says what the override does now; it is empty if nothing is known.
func (t *traffic) text(id string) string {
	var texts []string
	if rate := t.letThroughRate(id); rate > 0 {
		texts = append(texts, "lets through "+perSecond(rate, !t.lost && !t.isNew[id]))
	}
	switch rate, known := t.rate(id); {
	case t.deniesSince[id]:
		texts = append(texts, "denies >0/s")
	case known && rate > 0:
		texts = append(texts, "denies "+perSecond(rate, t.exact))
	}
	return strings.Join(texts, ", ")
}

// perSecond writes a rate; unless it is exact, there may be more.
func perSecond(rate float64, exact bool) string {
	text := strconv.FormatFloat(rate, 'f', 0, 64)
	switch {
	case rate < 0.1 && !exact:
		return ">0/s"
	case rate < 0.1:
		return "<0.1/s"
	case rate < 9.95:
		text = strconv.FormatFloat(rate, 'f', 1, 64)
	}
	if !exact {
		text = "≥" + text
	}
	return text + "/s"
}
