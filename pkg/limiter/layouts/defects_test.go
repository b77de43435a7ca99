package layouts

import (
	"reflect"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Of the values of a limit each kind of defect is said once. An expiry that is too late says until when the limit
// denies, unless its units come back by themselves.
func TestDefectsOfAnExpiry(t *testing.T) {
	const never = time.Duration(-1)
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	full := admin.Entry{Limit: limit, Decision: store.Decision{Used: 10}}
	below := admin.Entry{Limit: limit, Decision: store.Decision{Used: 3, Remaining: 7, Allowed: true}}
	for _, test := range []struct {
		life  lifetime
		entry admin.Entry
		ttls  []time.Duration
		want  []admin.Defect
	}{
		{lifetime{longest: time.Minute}, full, []time.Duration{never, never, 1000 * time.Minute, 20 * time.Minute},
			[]admin.Defect{{Kind: admin.NeverExpires, Text: "no expiry, so it denies for ever", Stuck: true},
				{Kind: admin.AbsurdTTL, Stuck: true,
					Text: "an expiry that looks like milliseconds given as seconds, so it denies until then"}}},
		{lifetime{longest: time.Minute}, below, []time.Duration{20 * time.Minute}, []admin.Defect{
			{Kind: admin.AbsurdTTL, Stuck: true,
				Text: "an expiry much later than the limit can last, so its count does not begin again until then, " +
					"and it denies once it is " +
					"at the limit"}}},
		{lifetime{longest: time.Minute, passes: true}, below, []time.Duration{20 * time.Minute}, []admin.Defect{
			{Kind: admin.AbsurdTTL,
				Text: "an expiry much later than the limit can last, so the key stays when it counts for nothing any " +
					"more"}}},
	} {
		values := []Value{{Type: NoValue, TTL: never}}
		for _, ttl := range test.ttls {
			values = append(values, Value{Type: StringValue, TTL: ttl})
		}
		if got := test.life.defects(&test.entry, values); !reflect.DeepEqual(got, test.want) {
			t.Errorf("got  %+v\nwant %+v", got, test.want)
		}
	}
}
