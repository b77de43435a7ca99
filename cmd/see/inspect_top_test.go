package see

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A summary prints the first groups and says how many more there are, unless all are asked for.
func TestASummaryIsBounded(t *testing.T) {
	for _, test := range []struct {
		groups int
		most   int
		last   string
	}{{20, 20, "all"}, {21, 20, "and 1 more; -o jsonl has all"}, {21, 0, "all"}} {
		a := &summaryAnswer{by: "n", byValue: map[string]*summaryGroup{}, most: test.most}
		for i := range test.groups {
			a.add(&inspectRow{entry: admin.Entry{Key: store.Key{Subject: fmt.Sprint("n:", i), Name: "x"}}})
		}
		a.Groups[test.groups-1].AtLimit = 1
		a.finish()
		if a.Groups[0].AtLimit != 1 {
			t.Errorf("%+v: the first group is %+v, and not the one at its limit", test, a.Groups[0])
		}
		var b strings.Builder
		a.Print(&output.Printer{Out: &b})
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, test.last) || len(a.Groups) != test.groups {
			t.Errorf("%+v: it ends with %q; %d lines of JSON", test, last, len(a.Groups))
		}
	}
}

// The rows that are kept are the first in the order.
func TestKeptRowsAreTheFirstAndWhole(t *testing.T) {
	number := rapid.OneOf(rapid.Int64Range(-1, 3), rapid.Int64())
	rapid.Check(t, func(t *rapid.T) {
		var rows []inspectRow
		for i := range rapid.IntRange(0, 400).Draw(t, "rows") {
			key := store.Key{Subject: rapid.SampledFrom([]string{"a", "b", "tenant:日本"}).Draw(t, "subject"),
				Name: fmt.Sprint("n", i)}
			e := admin.Entry{Key: key, StoreKey: admin.OwnLayout("rl").StoreKey(key), UsedUnknown: rapid.Bool().Draw(
				t, "unknown"),
				Limit: store.Limit{Algorithm: store.FixedWindow, Count: rapid.Int64Range(1, 3).Draw(t, "count"),
					Period: time.Minute}}
			e.Used, e.Remaining, e.Bytes = number.Draw(t, "used"), number.Draw(t, "remaining"), number.Draw(t, "bytes")
			e.TTL, e.ResetAfter = time.Duration(number.Draw(t, "ttl")), time.Duration(number.Draw(t, "reset"))
			rows = append(rows, inspectRow{entry: e})
		}
		order := orders()[rapid.SampledFrom(slices.Sorted(maps.Keys(orders()))).Draw(t, "order")]
		kept := &inspectAnswer{order: order, most: rapid.IntRange(0, 10).Draw(t, "most")}
		for i := range rows {
			kept.add(&rows[i])
			rows[i].figure = order(&rows[i])
		}
		kept.sort()
		all := &inspectAnswer{rows: rows}
		all.sort()
		if kept.most > 0 {
			rows = rows[:min(kept.most, len(rows))]
		}
		if !slices.EqualFunc(kept.rows, rows, func(a, b inspectRow) bool { return reflect.DeepEqual(a, b) }) {
			t.Fatalf("kept are\n%+v, want\n%+v", kept.rows, rows)
		}
	})
}
