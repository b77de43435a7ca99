package store_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func parsed(t testing.TB, text string) store.Limit {
	t.Helper()
	limit, err := store.ParseLimit(text)
	must(t, err)
	return normal(t, limit)
}

// The days of a calendar by its own rules: the bounds are where the date of the zone changes, in whatever way it does.
func TestWindowsOfACalendar(t *testing.T) {
	for _, test := range []struct{ window, at, begin, end, length string }{
		{"1d,tz=UTC", "2026-11-26T12:00Z", "2026-11-26T00:00Z", "2026-11-27T00:00Z", "24h"},
		// Summer time begins and ends in the day.
		{"1d,tz=Europe/Berlin", "2026-03-29T12:00+02:00", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00", "23h"},
		{"1d,tz=Australia/Lord_Howe", "2026-10-04T12:00+11:00", "2026-10-04T00:00+10:30", "2026-10-05T00:00+11:00",
			"23h30m"},
		// It begins with midnight, so the day begins at one.
		{"1d,tz=America/Havana", "2026-03-08T12:00-04:00", "2026-03-08T01:00-04:00", "2026-03-09T00:00-04:00", "23h"},
		// It ends at one, and there are two midnights; or at midnight, and there is one after that.
		{"1d,tz=America/Havana", "2026-11-01T00:30-05:00", "2026-11-01T00:00-04:00", "2026-11-02T00:00-05:00", "25h"},
		{"1d,tz=America/Santiago", "2026-04-04T23:30-04:00", "2026-04-04T00:00-03:00", "2026-04-05T00:00-04:00", "25h"},
		// Clocks went back over midnight, and to the day before: it counts to the day that had begun.
		{"1d,tz=America/St_Johns", "2006-10-28T23:30-03:30", "2006-10-29T00:00-02:30", "2006-10-30T00:00-03:30", "25h"},
		{"1d,tz=America/St_Johns", "2006-10-28T23:30-02:30", "2006-10-28T00:00-02:30", "2006-10-29T00:00-02:30", "24h"},
		// A day was skipped, and one came twice.
		{"1d,tz=Pacific/Apia", "2011-12-31T00:00+14:00", "2011-12-31T00:00+14:00", "2012-01-01T00:00+14:00", "24h"},
		{"1mo,tz=Pacific/Apia", "2011-12-31T00:00+14:00", "2011-12-01T00:00-10:00", "2012-01-01T00:00+14:00", "720h"},
		// Weeks begin on Monday.
		{"1w,tz=Europe/Berlin", "2026-11-30T00:00+01:00", "2026-11-30T00:00+01:00", "2026-12-07T00:00+01:00", "168h"},
		{"1w,tz=Europe/Berlin", "2027-01-01T12:00+01:00", "2026-12-28T00:00+01:00", "2027-01-04T00:00+01:00", "168h"},
		{"1mo,tz=Europe/Berlin", "2028-02-29T12:00+01:00", "2028-02-01T00:00+01:00", "2028-03-01T00:00+01:00", "696h"},
		{"1mo,tz=Europe/Berlin", "2026-10-01T00:00+02:00", "2026-10-01T00:00+02:00", "2026-11-01T00:00+01:00", "745h"},
		{"3mo,tz=UTC", "2026-11-26T00:00Z", "2026-10-01T00:00Z", "2027-01-01T00:00Z", "2208h"},
		// The longest: a leap year in which the zone moved west.
		{"1y,tz=Asia/Almaty", "2024-06-01T00:00+05:00", "2024-01-01T00:00+06:00", "2025-01-01T00:00+05:00", "8785h"},
		// No time is before the epoch.
		{"1y,tz=America/New_York", "1970-01-01T00:00Z", "1970-01-01T00:00Z", "1970-01-01T00:00-05:00", "5h"},
		{"1y,tz=Europe/Berlin", "1970-01-01T00:00Z", "1970-01-01T00:00Z", "1971-01-01T00:00+01:00", "8759h"},
		{"1mo,tz=Europe/Berlin", "2112-01-15T00:00Z", "2112-01-01T00:00+01:00", "2112-02-01T00:00+01:00", "744h"},
	} {
		at := func(text string) store.Instant {
			stamp, err := time.Parse("2006-01-02T15:04Z07:00", text)
			must(t, err)
			return store.InstantOf(stamp)
		}
		limit := parsed(t, "fixed-window:10/"+test.window)
		begin, end := at(test.begin), at(test.end)
		length, _ := time.ParseDuration(test.length)
		for _, now := range []store.Instant{at(test.at), begin, end - 1, end - 1000} {
			in := limit.InWindow(now)
			if in.Phase != begin.Time().Sub(time.Unix(0, 0)) || in.Period != length {
				t.Errorf("%s at %s: a window of %s from %s, want %s from %s", test.window, now.Time(), in.Period,
					time.Unix(0, 0).Add(in.Phase).UTC(), length, begin.Time())
			}
			stop, has := in.WindowEnds() // of the first window, which begins with 0, nobody asks
			want, _ := time.Parse("2006-01-02T15:04Z07:00", test.end)
			if has != (begin > 0) || has && stop.Format(time.RFC3339) != want.Format(time.RFC3339) {
				t.Errorf("%s at %s ends at %s, %v; want %s", test.window, now.Time(), stop.Format(time.RFC3339), has,
					test.end)
			}
		}
		if next := limit.InWindow(end); next.Phase != end.Time().Sub(time.Unix(0, 0)) {
			t.Errorf("%s: after the window to %s comes one from %s", test.window, end.Time(),
				time.Unix(0, 0).Add(next.Phase).UTC())
		}
	}
}

// Windows of all zones divide all time: at any instant there is one, it is of that instant, and the next one begins
// where it ends.
func TestWindowsOfACalendarDivideTime(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 9))
	zones := []string{
		"UTC", "Europe/Berlin", "America/Havana", "America/Sao_Paulo", "America/Asuncion", "America/St_Johns",
		"Pacific/Apia",
		"Pacific/Kwajalein", "Asia/Manila", "Asia/Amman", "Asia/Tehran", "Africa/Monrovia", "Africa/Casablanca",
		"Asia/Almaty",
		"Antarctica/Troll", "Australia/Lord_Howe", "Europe/Lisbon", "America/Scoresbysund", "Atlantic/Azores",
		"Asia/Pyongyang",
	}
	for _, zone := range zones {
		for _, unit := range []string{"1d", "1w", "1mo", "3mo", "1y"} {
			limit := parsed(t, fmt.Sprintf("fixed-window:10/%s,tz=%s", unit, zone))
			for range 60 {
				now := store.Instant(random.Int64N(1 << 51))
				for range 4 {
					in := limit.InWindow(now)
					begin := store.Instant(in.Phase.Microseconds())
					end := begin + store.Instant(in.Period.Microseconds())
					if begin > now || end <= now || end-begin > store.Instant(store.MaxWindow.Microseconds()) {
						t.Fatalf("%s of %s at %s: from %s to %s", unit, zone, now.Time(), begin.Time(), end.Time())
					}
					if _, err := in.Normalize(); err != nil {
						t.Fatalf("%s of %s at %s: %v", unit, zone, now.Time(), err)
					}
					for _, other := range []store.Instant{begin, end - 1, begin + (end-begin)/2} {
						if limit.InWindow(other) != in {
							t.Fatalf("%s of %s from %s to %s has another window at %s", unit, zone, begin.Time(),
								end.Time(), other.Time())
						}
					}
					now = end
				}
			}
		}
	}
}

// A record has the bounds of its window and the offset of its end, and no zone.
func TestRecordOfACalendarWindow(t *testing.T) {
	for _, test := range []struct{ window, want string }{
		{"1mo,tz=Europe/Berlin", "fixed-window:10/31d,until=2027-01-01T00:00:00+01:00"},
		{"1d,tz=America/St_Johns", "fixed-window:10/1d,until=2026-12-02T00:00:00-03:30"},
		{"1w,tz=Asia/Kathmandu", "fixed-window:10/7d,until=2026-12-07T00:00:00+05:45"},
		{"1y,tz=Pacific/Kiritimati", "fixed-window:10/365d,until=2027-01-01T00:00:00+14:00"},
		{"3mo,tz=UTC", "fixed-window:10/92d,until=2027-01-01T00:00:00Z"},
	} {
		limit, now := parsed(t, "fixed-window:10/"+test.window),
			store.InstantOf(time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC))
		var s store.State
		take(&s, limit, 3, now)
		record := s.AppendRecord(nil)
		if len(record) != 30 || record[2] != 4 || record[3] != 7 {
			t.Errorf("%s is recorded as %x", limit, record)
		}
		read := decode(t, record)
		end, has := read.Limit.InWindow(now).WindowEnds()
		want, _ := limit.InWindow(now).WindowEnds()
		if read.Limit.String() != test.want || !has || end.Format(time.RFC3339) != want.Format(time.RFC3339) ||
			read.Used(now) != 3 || read.UnusedAt(now) != store.InstantOf(want) {
			t.Errorf("%s is read as %s, until %s: %+v", limit, read.Limit, end, read)
		}
		asked := limit.InWindow(now)
		var under store.State
		if err := under.DecodeRecordUnder(&asked, record); err != nil || under.Limit != asked {
			t.Errorf("%s is read under itself as %s, %v", limit, under.Limit, err)
		}
		// It is itself a limit, of windows of that length.
		later := store.InstantOf(want) + 5
		if read.Charge(read.Limit, 2, later); read.Used(later) != 2 ||
			!slices.Equal(decode(t, read.AppendRecord(nil)).AppendRecord(nil),
				read.AppendRecord(nil)) {
			t.Errorf("%s charged after its end: %+v", test.want, read)
		}
	}
}

// Two limits of the same windows are equal, and other windows have other names and tokens.
func TestLimitsOfACalendarAreCompared(t *testing.T) {
	limit := parsed(t, "fixed-window:10/1mo,tz=Europe/Berlin")
	again := parsed(t, "fixed-window:10/month,tz=Europe/Berlin")
	if again != limit || again.String() != "fixed-window:10/1mo,tz=Europe/Berlin" {
		t.Errorf("%s and %s differ", limit, again)
	}
	if name := limit.DefaultName(); name != "fixed-window/1mo,Europe/Berlin" {
		t.Errorf("the name is %s", name)
	}
	now := store.InstantOf(time.Date(2026, 2, 1, 6, 0, 0, 0, time.UTC))
	in := limit.InWindow(now)
	if in.DefaultName() != limit.DefaultName() || in.String() != limit.String() {
		t.Errorf("in its window it is called %s %s", in.DefaultName(), in)
	}
	digest := func(l store.Limit) store.TokenDigest {
		return store.TokenDigestOf([]store.Request{{Key: store.Key{Subject: "a", Name: "b"}, Limit: l}})
	}
	if digest(limit) != digest(in) {
		t.Error("a token is of one window")
	}
	for _, other := range []string{"1mo,tz=Europe/Paris", "3mo,tz=Europe/Berlin", "1d,tz=Europe/Berlin"} {
		if l := parsed(t, "fixed-window:10/"+other); l == limit || digest(l) == digest(limit) ||
			l.DefaultName() == limit.DefaultName() {
			t.Errorf("%s is the same as %s", l, limit)
		}
	}
	plain := parsed(t, "fixed-window:10/1d")
	if plain.Kind() == limit.Kind() || plain.Period != 24*time.Hour || plain.String() != "fixed-window:10/1d" {
		t.Errorf("1d without a zone is %+v", plain)
	}
}

// A host may have its database of zones anywhere, but no name reaches out of it.
func TestNoZoneIsAFile(t *testing.T) {
	t.Setenv("ZONEINFO", t.TempDir())
	must(t, os.WriteFile(os.Getenv("ZONEINFO")+"/x.y", []byte("TZif2"), 0o600))
	for _, zone := range []string{"x.y", "./UTC", "UTC/..", "a b", "Ünited/X"} {
		if _, err := store.ParseLimit("fixed-window:10/1mo,tz=" + zone); err == nil {
			t.Errorf("%q is a zone", zone)
		}
	}
}
