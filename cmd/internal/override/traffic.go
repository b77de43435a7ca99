package override

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// traffic is what overrides do now: the denials of the keys that each applies to.
type traffic struct {
	known bool // the denials were read
	exact bool // else there may be more
	// over is the time in which they were counted.
	over time.Duration
	// denied counts them by the ID of the override. isNew has those that were set within that time and deny since: some
	// of the denials may be from before, so there is no rate.
	denied map[string]int64
	isNew  map[string]bool
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
	t := traffic{known: true, exact: denials.Exact(), over: trafficSpan + now.Sub(now.Truncate(trafficSpan)),
		denied: map[string]int64{}, isNew: map[string]bool{}}
	list := store.NewOverrideList(overrides)
	for _, row := range denials.Rows {
		o := list.For(row.Key)
		switch {
		case o == nil || row.LastAt.Time().Before(o.CreatedAt):
		case o.CreatedAt.After(now.Add(-t.over)):
			t.isNew[o.ID] = true
		default:
			t.denied[o.ID] += row.Count
		}
	}
	return t
}

// rate is the denials a second under an override. It is unknown for one that has just been set and denies.
func (t *traffic) rate(id string) (perSecond float64, known bool) {
	if !t.known || t.isNew[id] {
		return 0, false
	}
	return float64(t.denied[id]) / t.over.Seconds(), true
}

// cell is the rate for a table. A dash is for no denial that is known, since not all services may count them.
func (t *traffic) cell(id string) string {
	rate, known := t.rate(id)
	text := strconv.FormatFloat(rate, 'f', 0, 64)
	switch {
	case t.isNew[id]:
		return ">0"
	case !known:
		return cli.NotKnown
	case rate == 0:
		return "-"
	case rate < 0.1:
		text = "<0.1"
	case rate < 9.95:
		text = strconv.FormatFloat(rate, 'f', 1, 64)
	}
	if !t.exact && !strings.HasPrefix(text, "<") {
		text = "≥" + text
	}
	return text
}

// text says how many the override denies now; it is empty if none is known.
func (t *traffic) text(id string) string {
	switch cell := t.cell(id); cell {
	case "-", cli.NotKnown:
		return ""
	default:
		return cell + " denied a second"
	}
}
