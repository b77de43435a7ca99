package layouts

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Clocks may differ by two seconds: a layout is as certain of a key that is kept for so much shorter or longer than
// it is expected to be, and no more of one beside that.
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
				t.Errorf("%s, %s, kept for %s: certain is %v, %v; want %v", name, test.vector, ttl, reading.Certain,
					err, want)
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

// What is wrong with how long a key is kept, at the bounds of what is right and beside them.
func TestBoundsOfLifetimes(t *testing.T) {
	const longest = 2 * 366 * day
	minute := lifetime{longest: time.Minute}
	for _, test := range []struct {
		kept lifetime
		ttl  time.Duration
		want admin.DefectKind
	}{
		{minute, 10 * time.Minute, ""}, {minute, 10*time.Minute + 1, admin.AbsurdTTL},
		{lifetime{longest: time.Second}, 61 * time.Second, ""},
		{lifetime{longest: time.Second}, 61*time.Second + 1, admin.AbsurdTTL},
		{lifetime{}, longest, ""}, {lifetime{}, longest + 1, admin.AbsurdTTL},
		{lifetime{longest: longest / 10}, longest, ""}, {lifetime{longest: longest / 10}, longest + 1, admin.AbsurdTTL},
		{minute, 0, ""}, {minute, -1, admin.NeverExpires},
	} {
		found := test.kept.defects(&admin.Entry{}, []Value{{Type: StringValue, TTL: test.ttl}})
		if (len(found) == 0) != (test.want == "") || len(found) > 0 && (len(found) != 1 || found[0].Kind != test.want) {
			t.Errorf("%+v kept for %s: %+v, want %q", test.kept, test.ttl, found, test.want)
		}
	}
	for ttl, want := range map[time.Duration]bool{
		15_000 * time.Second: false, 15_001 * time.Second: true, 61_000 * time.Second: true,
		61_001 * time.Second: false,
	} { // a minute in milliseconds, given for seconds
		if is := minute.inMilliseconds(ttl); is != want {
			t.Errorf("%s looks like milliseconds of a minute: %v, want %v", ttl, is, want)
		}
	}
}

// pickleTimes writes a list of numbers as Python does in protocol 4, without a frame.
func pickleTimes(times []float64) string {
	text := []byte{pickleProto, 4, pickleList, pickleMemoize}
	if len(times) > 0 {
		text = append(text, pickleMark)
		for _, at := range times {
			text = binary.BigEndian.AppendUint64(append(text, pickleFloat), math.Float64bits(at))
		}
		text = append(text, pickleAppends)
	}
	return string(append(text, pickleStop))
}

// TestDrfLongList: a list that was not read to its end is enough if it reaches past the period.
func TestDrfLongList(t *testing.T) {
	const storeKey = ":1:throttle_user_42"
	times := make([]float64, 2000)
	for i := range times {
		times[i] = 1_795_294_536 - float64(i)
	}
	whole := pickleTimes(times)
	for _, c := range []struct {
		period time.Duration
		used   int64
		known  bool
	}{{time.Minute, 60, true}, {time.Hour, 0, false}} {
		found := &Found{StoreKey: storeKey, Key: store.Key{Subject: "42", Name: "drf/user"}, Now: 1_795_294_536_000_000,
			Limit: store.Limit{Count: 100, Period: c.period}, Values: []Value{text(storeKey, whole[:4096], c.period)}}
		found.Values[0].Length = int64(len(whole))
		reading, err := decode(named("drf"), found)
		if err != nil || reading.Entries[0].UsedKnown() != c.known || reading.Entries[0].Used != c.used {
			t.Errorf("in %s: %+v, %v", c.period, reading, err)
		}
	}
}

func TestPeriodOfWindow(t *testing.T) {
	for _, period := range []time.Duration{
		time.Millisecond, 20 * time.Millisecond, 250 * time.Millisecond, time.Second, 3 * time.Second, 7 * time.Second,
		10 * time.Second,
		45 * time.Second, time.Minute, 61 * time.Second, 90 * time.Second, 5 * time.Minute, 15 * time.Minute,
		40 * time.Minute, time.Hour,
		2 * time.Hour, 6 * time.Hour, 8 * time.Hour, day, 2 * day, 7 * day, 10 * day, 14 * day, 30 * day, 60 * day,
		90 * day,
	} {
		unit := time.Millisecond
		if period >= time.Second {
			unit = time.Second
		}
		for age := int64(0); age <= 2; age++ {
			for shift := range int64(50) { // windows end at other times then
				now := somewhen + store.Instant(shift*int64(period/time.Microsecond)/50+shift*977)
				index := int64(now)*1000/int64(period) - age
				got, known := periodOfWindow(index, unit, 0, now)
				if !known || got != period {
					t.Fatalf("window %d of %s at %d (age %d) seems to be of %s, %v", index, period, now, age, got,
						known)
				}
			}
		}
	}
}

func TestPeriodOfWindowIsNotGuessed(t *testing.T) {
	for name, c := range map[string]struct {
		index int64
		unit  time.Duration
	}{
		"none":                          {0, time.Second},
		"a year":                        {int64(somewhen) / 1e6 / (365 * 86400), time.Second},
		"a phone number":                {4_930_123_456, time.Second},
		"seconds, counted in ms":        {int64(somewhen) / 1000, time.Second},
		"a minute of five months back":  {int64(somewhen)/60e6 - 220_000, time.Second},
		"a second that was kept longer": {int64(somewhen)/1e6 - 25, time.Second},
	} {
		if period, known := periodOfWindow(c.index, c.unit, 0, somewhen); known {
			t.Errorf("%s: window %d seems to be of %s", name, c.index, period)
		}
	}
	if period, known := periodOfWindow(int64(somewhen)/1e6-25, time.Second, 30*time.Second, somewhen); !known ||
		period != time.Second {
		t.Errorf("of a second that is kept for 30 s more it is of %s, %v", period, known)
	}
}
