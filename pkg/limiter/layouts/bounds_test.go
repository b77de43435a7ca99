package layouts

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
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
		{laravel{}, "three attempts", 1, 39_550*millisecond - 2*second, 39_550*millisecond + 3*second},
		{laravel{}, "Redis::throttle", 0, 109_550*millisecond - 2*second, 109_550*millisecond + 2*second},
		{redisRate{}, "three taken", 0, 17_423_089_027 - 2*second, 17_423_089_027 + 3*second},
		{throttled{}, "one and a quarter taken", 0, 6500*millisecond - 2*second, 6500*millisecond + 4*second},
		{boulder{}, "one and a quarter taken", 0, 7500*millisecond - 2*second, 2 * 366 * day},
		{rackAttack{}, "five", 0, 48_550*millisecond - 2*second, 48_550*millisecond + 4*second},
		{redisRateWindows{}, "three counted", 0, 48_550*millisecond + 28*second, 92 * second},
		{kong{}, "advanced: by the window before", 0, 0, 122 * second},
		{kong{}, "advanced: by the window before", 1, 0, 122 * second},
		{upstash{}, "sliding", 0, ever, 123 * second},
	} {
		name := test.layout.Info().Name
		for ttl, want := range map[time.Duration]bool{
			test.least - 1: test.least == ever, test.least: true, test.most: true, test.most + 1: false,
		} {
			found := vectorNamed(t, name, test.vector).found(test.layout, store.Key{})
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
		found := vectorNamed(t, "upstash", "a bucket").found(upstash{}, store.Key{})
		found.Values[0] = hash(found.Values[0].StoreKey, 40*time.Second, "refilledAt", refilledAt, "tokens", "4")
		if reading, err := decode((upstash{}), found); err != nil || reading.Certain != want {
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

// A hash that does not tell its period surely is in its first window for a third of the time that it is kept for,
// by clocks that may differ, unless it is kept for a week.
func TestAFirstWindowThatSurelyHasNotEnded(t *testing.T) {
	const now = int64(1_795_294_331_000_000_000) // a float64 tells times apart that are 256 ns apart
	for _, test := range []struct {
		kept, age time.Duration
		want      bool
	}{
		{180 * time.Second, -256, false}, {180 * time.Second, 0, true},
		{180 * time.Second, 58*time.Second - 256, true}, {180 * time.Second, 58 * time.Second, false},
		{7*day - 3*time.Second, time.Second - 256, true}, {7*day - 3*time.Second, time.Second, false},
		{0, 0, false},
	} {
		ticks := ticks{start: float64(now - int64(test.age))}
		if got := isInFirstWindow(&ticks, test.kept, now); got != test.want {
			t.Errorf("after %s, kept for %s: %v, want %v", test.age, test.kept, got, test.want)
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

// A key that is set is kept until all of its units are back, rounded up, and for as long as its limiter keeps one:
// also where it had no expiry, or one of a block that is longer than the period.
func TestHowLongIsKeptWhatIsSet(t *testing.T) {
	for _, test := range []struct {
		layout   Setter
		storeKey string
		value    Value
		limit    store.Limit
		want     time.Duration // 0 where the expiry stays
	}{
		// 7 a minute: 4 units come back in 34.3 s.
		{redisRate{}, "rate:a", text("rate:a", "312065549.4", time.Minute), store.Limit{Count: 7, Period: time.Minute}, 35 * time.Second},
		{rateLimiterFlexible{}, "rlflx:a", text("rlflx:a", "3", time.Minute), store.Limit{Count: 7, Period: time.Minute}, 0},
		{rateLimiterFlexible{}, "rlflx:a", text("rlflx:a", "3", time.Minute+1), store.Limit{Count: 7, Period: time.Minute}, time.Minute},
		{redisRateWindows{}, "rate:a-29921572", text("rate:a-29921572", "3", -1), store.Limit{Count: 7, Period: time.Minute},
			90 * time.Second},
	} {
		v := vector{storeKey: test.storeKey, values: []Value{test.value}, now: somewhen, limit: test.limit}
		writes, err := test.layout.SetRemaining(v.found(test.layout, store.Key{}), 3)
		if err != nil || len(writes) != 1 || writes[0].TTL != test.want {
			t.Errorf("%s, kept for %s: %+v, %v; want it kept for %s", test.layout.Info().Name, test.value.TTL, writes, err, test.want)
		}
	}
}
