package layouts

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestPeriodOfWindow(t *testing.T) {
	for _, period := range []time.Duration{
		time.Millisecond, 20 * time.Millisecond, 250 * time.Millisecond, time.Second, 3 * time.Second, 7 * time.Second, 10 * time.Second,
		45 * time.Second, time.Minute, 61 * time.Second, 90 * time.Second, 5 * time.Minute, 15 * time.Minute, 40 * time.Minute, time.Hour,
		2 * time.Hour, 6 * time.Hour, 8 * time.Hour, day, 2 * day, 7 * day, 10 * day, 14 * day, 30 * day, 60 * day, 90 * day,
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
					t.Fatalf("window %d of %s at %d (age %d) seems to be of %s, %v", index, period, now, age, got, known)
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
		"negative":                      {-5, time.Second},
		"a year":                        {int64(somewhen) / 1e6 / (365 * 86400), time.Second},
		"a small number":                {12, time.Second},
		"a number of a user":            {12345, time.Second},
		"a phone number":                {4_930_123_456, time.Second},
		"the greatest":                  {1<<63 - 1, time.Millisecond},
		"seconds, counted in ms":        {int64(somewhen) / 1000, time.Second},
		"a minute of five months back":  {int64(somewhen)/60e6 - 220_000, time.Second},
		"a second that was kept longer": {int64(somewhen)/1e6 - 25, time.Second},
	} {
		if period, known := periodOfWindow(c.index, c.unit, 0, somewhen); known {
			t.Errorf("%s: window %d seems to be of %s", name, c.index, period)
		}
	}
	if period, known := periodOfWindow(int64(somewhen)/1e6-25, time.Second, 30*time.Second, somewhen); !known || period != time.Second {
		t.Errorf("of a second that is kept for 30 s more it is of %s, %v", period, known)
	}
}

// Numbers that are not of windows seldom look as if they were.
func TestPeriodOfOtherNumbers(t *testing.T) {
	taken := 0
	for i := range int64(10_000) {
		if _, known := periodOfWindow(1_000+i*i*17, time.Second, 0, somewhen); known {
			taken++
		}
	}
	if taken > 300 {
		t.Errorf("%d of 10000 numbers are taken for numbers of windows", taken)
	}
}

func TestWindow(t *testing.T) {
	index := int64(somewhen) / 60e6
	for _, c := range []struct {
		index, age int64
		until      time.Duration
	}{
		{index, 0, 48_550 * time.Millisecond},
		{index - 1, 1, -11_450 * time.Millisecond},
		{index + 1, -1, 108_550 * time.Millisecond},
		{index - 3, 3, -131_450 * time.Millisecond},
	} {
		w := window{c.index, time.Minute}
		if w.age(somewhen) != c.age || w.until(somewhen) != c.until {
			t.Errorf("window %d: age %d, %s to its end, want %d and %s", c.index, w.age(somewhen), w.until(somewhen), c.age, c.until)
		}
	}
}

func TestWindowOf(t *testing.T) {
	minute, hour := int64(somewhen)/60e6, int64(somewhen)/3600e6
	said := store.Limit{Count: 10, Period: time.Minute}
	all := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	for name, c := range map[string]struct {
		said   store.Limit
		index  int64
		period time.Duration
		limit  store.Limit
	}{
		"said":                       {said, minute, time.Minute, all},
		"said, of the window before": {said, minute - 1, time.Minute, all},
		"said, of a clock ahead":     {said, minute + 1, time.Minute, all},
		"not said":                   {store.Limit{}, minute, time.Minute, store.Limit{Algorithm: store.FixedWindow, Period: time.Minute}},
		"the count said":             {store.Limit{Count: 10}, minute, time.Minute, all},
		"said of other keys":         {said, hour, time.Hour, store.Limit{Algorithm: store.FixedWindow, Period: time.Hour}},
		"long past":                  {said, minute - 300_000, time.Minute, all},
		"long past, not said":        {store.Limit{}, minute - 300_000, 0, store.Limit{Algorithm: store.FixedWindow}},
		"of the far future":          {said, minute + 300_000, 0, store.Limit{Algorithm: store.FixedWindow}},
	} {
		w, limit := windowOf(c.said, c.index, time.Second, 0, somewhen)
		if w != (window{c.index, c.period}) || limit != c.limit {
			t.Errorf("%s: got %+v of %+v, want %s and %+v", name, w, limit, c.period, c.limit)
		}
	}
}
