package layouts

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestDefectsOfAnExpiry(t *testing.T) {
	const never, eternity = time.Duration(-1), time.Duration(math.MaxInt64)
	known := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	atLimit := admin.Entry{Limit: known, Decision: store.Decision{Used: 10}}
	below := admin.Entry{Limit: known, Decision: store.Decision{Used: 3, Remaining: 7, Allowed: true}}
	unknown := admin.Entry{Decision: store.Decision{Used: 10}}
	unused := admin.Entry{Limit: known, Decision: store.Decision{Remaining: 10, Allowed: true}}
	past := admin.Entry{UsedUnknown: true, ResetTold: true}
	ahead := admin.Entry{UsedUnknown: true, ResetTold: true, Decision: store.Decision{ResetAfter: time.Second}}
	minute := lifetime{longest: time.Minute}
	const (
		once         = "so its count never begins again: it denies for ever once it is at the limit"
		stays        = "so the key stays when it counts for nothing any more"
		milliseconds = "an expiry that looks like milliseconds given as seconds, so it denies "
		early        = "expires before its units have come back, so more is let through than the limit allows"
	)
	stuck := func(kind admin.DefectKind, text string) []admin.Defect {
		return []admin.Defect{{Kind: kind, Text: text, Stuck: true}}
	}
	passing := func(kind admin.DefectKind, text string) []admin.Defect {
		return []admin.Defect{{Kind: kind, Text: text}}
	}
	tests := []struct {
		name  string
		life  lifetime
		entry admin.Entry
		ttls  []time.Duration
		want  []admin.Defect
	}{
		{"as it should be", minute, atLimit, []time.Duration{time.Minute}, nil},
		{"at the limit for ever", lifetime{never: "Kong/kong#5763"}, atLimit, []time.Duration{never},
			stuck(admin.NeverExpires, "no expiry, so it denies for ever (Kong/kong#5763)")},
		{"below the limit for ever", minute, below, []time.Duration{never}, stuck(admin.NeverExpires, "no expiry, "+once)},
		{"an unknown limit", minute, unknown, []time.Duration{never}, stuck(admin.NeverExpires, "no expiry, "+once)},
		{"a bucket that fills by itself", lifetime{passes: true}, below, []time.Duration{never},
			passing(admin.NeverExpires, "no expiry, "+stays)},
		{"a bucket of which only the end is known", lifetime{passes: true}, ahead, []time.Duration{never},
			passing(admin.NeverExpires, "no expiry, "+stays)},
		{"a full bucket", lifetime{passes: true}, unused, []time.Duration{never},
			stuck(admin.NeverExpires, "no expiry, so the key stays although it counts for nothing")},
		{"an arrival time in the past", lifetime{passes: true}, past, []time.Duration{never},
			stuck(admin.NeverExpires, "no expiry, so the key stays although it counts for nothing")},
		{"milliseconds for seconds", minute, atLimit, []time.Duration{59_000 * time.Second},
			stuck(admin.AbsurdTTL, milliseconds+"until then")},
		{"a time in milliseconds", lifetime{absurd: "Kong/kong#14995"}, atLimit, []time.Duration{eternity},
			stuck(admin.AbsurdTTL, milliseconds+"for ever (Kong/kong#14995)")},
		{"twenty times too long", minute, below, []time.Duration{20 * time.Minute},
			stuck(admin.AbsurdTTL, "an expiry much later than the limit can last, so its count does not begin again until then, "+
				"and it denies once it is at the limit")},
		{"absurd and passing", lifetime{longest: time.Minute, passes: true}, below, []time.Duration{20 * time.Minute},
			passing(admin.AbsurdTTL, "an expiry much later than the limit can last, "+stays)},
		{"nine times: the period may have been changed", minute, below, []time.Duration{9 * time.Minute}, nil},
		{"a short limit, and not a minute too long", lifetime{longest: time.Second}, below, []time.Duration{time.Minute}, nil},
		{"nothing known, a year", lifetime{}, unknown, []time.Duration{366 * 24 * time.Hour}, nil},
		{"nothing known, three years", lifetime{}, unknown, []time.Duration{3 * 366 * 24 * time.Hour},
			stuck(admin.AbsurdTTL, "an expiry much later than the limit can last, "+once)},
		{"too short", lifetime{needed: 100 * time.Second}, below, []time.Duration{2 * time.Second},
			passing(admin.ShortTTL, early)},
		{"rounded to seconds", lifetime{needed: 2900 * time.Millisecond}, below, []time.Duration{2 * time.Second}, nil},
		{"told exactly", lifetime{needed: 2900 * time.Millisecond, rounding: time.Millisecond}, below, []time.Duration{2 * time.Second},
			passing(admin.ShortTTL, early)},
		{"two values, each kind once", minute, atLimit, []time.Duration{never, never, 1000 * time.Minute, 20 * time.Minute},
			[]admin.Defect{{Kind: admin.NeverExpires, Text: "no expiry, so it denies for ever", Stuck: true},
				{Kind: admin.AbsurdTTL, Text: milliseconds + "until then", Stuck: true}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			values := []Value{{Type: NoValue, TTL: never}}
			for _, ttl := range test.ttls {
				values = append(values, Value{Type: StringValue, TTL: ttl})
			}
			if got := test.life.defects(&test.entry, values); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}
