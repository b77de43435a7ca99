package layouts

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// Clocks may differ by two seconds: a layout is as certain of a key that is kept for so much shorter or longer
// than it is expected to be, and no more of one beside that.
func TestClocksMayDiffer(t *testing.T) {
	const millisecond, second = time.Millisecond, time.Second
	const ever = time.Duration(-1) // also if it does not expire
	for _, test := range []struct {
		layout      Layout
		vector      string
		value       int // whose time to live it is
		least, most time.Duration
	}{
		{named("laravel"), "three attempts", 1, 39_550*millisecond - 2*second, 39_550*millisecond + 3*second},
		{named("laravel"), "Redis::throttle", 0, 109_550*millisecond - 2*second, 109_550*millisecond + 2*second},
		{named("redis_rate"), "three taken", 0, 17_423_089_027 - 2*second, 17_423_089_027 + 3*second},
		{named("throttled"), "one and a quarter taken", 0, 6500*millisecond - 2*second, 6500*millisecond + 4*second},
		{named("rack-attack"), "five", 0, 48_550*millisecond - 2*second, 48_550*millisecond + 4*second},
		{named("upstash"), "sliding", 0, ever, 123 * second},
	} {
		name := test.layout.Info().Name
		for ttl, want := range map[time.Duration]bool{
			test.least - 1: test.least == ever, test.least: true, test.most: true, test.most + 1: false,
		} {
			found := vectorNamed(t, name, test.vector).found(test.layout)
			found.Values[test.value].TTL = ttl
			reading, err := decode(test.layout, found)
			if err != nil || reading.Certain != want {
				t.Errorf("%s, %s, kept for %s: certain is %v, %v; want %v", name, test.vector, ttl, reading.Certain, err, want)
			}
		}
	}
}

// vectorNamed returns a vector of a layout.
func vectorNamed(t *testing.T, layout, name string) *vector {
	t.Helper()
	for _, v := range vectors()[layout] {
		if v.name == name {
			return &v
		}
	}
	t.Fatalf("%s has no vector %q", layout, name)
	return nil
}

// The clock of a client that writes times may be two seconds ahead, too.
func TestAClientsClockMayBeAhead(t *testing.T) {
	for refilledAt, want := range map[string]bool{"1795294333450": true, "1795294333451": false} {
		found := vectorNamed(t, "upstash", "a bucket").found(named("upstash"))
		found.Values[0] = hash(found.Values[0].StoreKey, 40*time.Second, "refilledAt", refilledAt, "tokens", "4")
		if reading, err := decode(named("upstash"), found); err != nil || reading.Certain != want {
			t.Errorf("refilled at %s: certain is %v, %v; want %v", refilledAt, reading.Certain, err, want)
		}
	}
	for index, want := range map[int64]bool{int64(somewhen)/1e6 + 2: true, int64(somewhen)/1e6 + 3: false} {
		if period, known := periodOfWindow(index, time.Second, 0, somewhen); known != want {
			t.Errorf("window %d: %s, %v; want %v", index, period, known, want)
		}
	}
}

// The period of a list of requests is told by its expiry, two seconds or half the period more or less.
func TestAPeriodByAnExpiryAboutRight(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		58 * time.Second: time.Minute, 58*time.Second - 1: 0, 62 * time.Second: time.Minute, 62*time.Second + 1: 0,
		500 * time.Millisecond: time.Second, 500*time.Millisecond - 1: 0, 1500 * time.Millisecond: time.Second, 1500*time.Millisecond +
			1: 0,
		time.Hour + 2*time.Second: time.Hour, time.Hour + 2*time.Second + 1: 0,
	} {
		found := &Found{Now: 1_795_294_331_000_000, Values: []Value{{TTL: ttl}}}
		if limit := drfLimit(found, []float64{1_795_294_331}); limit.Period != want {
			t.Errorf("kept for %s: the period is %s, want %s", ttl, limit.Period, want)
		}
	}
}

// What is wrong with how long a key is kept, at the bounds of what is right and beside them.
func TestBoundsOfLifetimes(t *testing.T) {
	const longest = 2 * 366 * day
	minute := lifetime{longest: time.Minute, needed: 30 * time.Second}
	for _, test := range []struct {
		kept lifetime
		ttl  time.Duration
		want admin.DefectKind
	}{
		{minute, 29 * time.Second, ""}, {minute, 29*time.Second - 1, admin.ShortTTL}, // a second is rounding
		{lifetime{needed: 30 * time.Second, rounding: 5 * time.Second}, 25 * time.Second, ""},
		{lifetime{needed: 30 * time.Second, rounding: 5 * time.Second}, 25*time.Second - 1, admin.ShortTTL},
		{minute, 10 * time.Minute, ""}, {minute, 10*time.Minute + 1, admin.AbsurdTTL},
		{lifetime{longest: time.Second}, 61 * time.Second, ""}, {lifetime{longest: time.Second}, 61*time.Second + 1, admin.AbsurdTTL},
		{lifetime{}, longest, ""}, {lifetime{}, longest + 1, admin.AbsurdTTL},
		{lifetime{longest: longest / 10}, longest, ""}, {lifetime{longest: longest / 10}, longest + 1, admin.AbsurdTTL},
		{minute, 0, admin.ShortTTL}, {minute, -1, admin.NeverExpires},
	} {
		found := test.kept.defects(&admin.Entry{}, []Value{{Type: StringValue, TTL: test.ttl}})
		if (len(found) == 0) != (test.want == "") || len(found) > 0 && (len(found) != 1 || found[0].Kind != test.want) {
			t.Errorf("%+v kept for %s: %+v, want %q", test.kept, test.ttl, found, test.want)
		}
	}
	for ttl, want := range map[time.Duration]bool{
		15_000 * time.Second: false, 15_001 * time.Second: true, 61_000 * time.Second: true, 61_001 * time.Second: false,
	} { // a minute in milliseconds, given for seconds
		if is := minute.inMilliseconds(ttl); is != want {
			t.Errorf("%s looks like milliseconds of a minute: %v, want %v", ttl, is, want)
		}
	}
}
