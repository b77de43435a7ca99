package dash

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// setOverride sets an override of exactly one subject for an hour.
func (d *driver) setOverride(subject string, o store.Override) {
	d.t.Helper()
	var err error
	if o.Subjects, err = store.ExactPattern(subject); err != nil {
		d.t.Fatal(err)
	}
	_, err = d.store.SetOverride(d.t.Context(), o, time.Hour)
	must(d.t, err)
}

func (d *driver) row(subject string) *live.Row {
	d.t.Helper()
	for _, r := range d.feed.Rows {
		if r.Key.Subject == subject {
			return r
		}
	}
	d.t.Fatalf("%s is not followed", subject)
	return nil
}

// byOverrides is how the command has the limits in force of keys that are not of a policy.
func byOverrides(e *admin.Entry, o *store.Override) store.Limit {
	return o.Apply(e.Limit)
}

// What is used and left goes by the overrides in force as soon as they are read, also by those that are there
// before the dashboard, and also of a key that is not used any more.
func TestOverridesTellWhatIsLeft(t *testing.T) {
	d := begin(t, func(d *driver) {
		three(d)
		d.setOverride("near", store.Override{Effect: store.OverrideTimes, Thousandths: 500})
	}, func(o *live.Options) {
		o.InForce, o.Keep = byOverrides, func(e *admin.Entry) bool { return e.AtLimit() }
	})
	if text := d.View(); d.subjects() != "[near] full" || !strings.Contains(text, "2 keys, 2 at the limit") ||
		!strings.Contains(text, "9/5") {
		t.Errorf("with an override that was there it shows %s:\n%s", d.subjects(), text)
	}
	d = begin(t, three, func(o *live.Options) { o.InForce = byOverrides })
	d.setOverride("calm", store.Override{Effect: store.OverrideBlock})
	d.setOverride("full", store.Override{Effect: store.OverrideTimes, Thousandths: 3000})
	d.second()
	if calm, full := d.row("calm"), d.row("full"); calm.Remaining != 0 || calm.RetryAfter != time.Hour-time.Second ||
		full.Remaining != 20 {
		t.Errorf("a blocked key has %d left, and next in %s; one with ×3 has %d left", calm.Remaining, calm.RetryAfter,
			full.Remaining)
	}
	if n := d.feed.Tally.AtLimit; n != 1 {
		t.Errorf("%d are at the limit", n)
	}
	d.setOverride("calm", store.Override{Effect: store.OverrideBlock})
	if _, _, err := d.store.Delete(t.Context(), admin.Record{Key: d.row("calm").Key},
		admin.Record{Key: d.row("full").Key}); err != nil {
		t.Fatal(err)
	}
	d.second()
	if calm, full := d.row("calm"), d.row("full"); calm.InUse || calm.Remaining != 0 || full.Remaining != 30 {
		t.Errorf("unused, the blocked key has %d left, and the one with ×3 has %d", calm.Remaining, full.Remaining)
	}
}

// rate is the units a second lately.
func rate(r *live.Row) float64 {
	mean, _ := r.Units.Mean()
	return mean
}

// Units a second are told by the records, whatever limit is in force.
func TestAnotherLimitInForceIsNoUsage(t *testing.T) {
	for _, limit := range []string{"60/1m,burst=1000", "sliding-log:1000/1m", "fixed-window:1000/1m"} {
		for name, inForce := range map[string]func(store.Limit) store.Limit{
			"another count": func(l store.Limit) store.Limit {
				return store.Limit{Algorithm: l.Algorithm, Count: 99, Period: l.Period}
			},
			"another rule": func(store.Limit) store.Limit {
				return store.Limit{Algorithm: store.SlidingCounter, Count: 99, Period: time.Hour}
			},
		} {
			key := store.Key{Subject: "busy", Name: "x"}
			d := begin(t, func(d *driver) { d.take(key, limit, 3) }, func(o *live.Options) {
				o.InForce = func(e *admin.Entry, _ *store.Override) store.Limit { return inForce(e.Limit) }
			})
			for range 75 { // then the log is too long for its state to be read
				d.take(key, limit, 3)
				d.second()
			}
			if r := d.row("busy"); math.Abs(rate(r)-3) > 1.1 || r.Limit.Count != 99 {
				t.Errorf("%s, %s: 3 a second are taken, and %.2f are shown, of %s", limit, name, rate(r), r.Limit)
			}
		}
	}
}

// What a block denies is told apart, in the sums and beside the block, and takes no place from those who are denied by
// limits: who needs help is not hidden by whom the operator blocked.
func TestBlockedKeysAreNoVictims(t *testing.T) {
	d := begin(t, func(d *driver) {
		three(d)
		d.take(store.Key{Subject: "ip:203.0.113.9"}, "100/1h", 99)
	}, func(o *live.Options) { o.MaxKeys = 5 })
	d.setOverride("ip:203.0.113.9", store.Override{Effect: store.OverrideBlock})
	for range 12 {
		d.deny(admin.Denials{Rows: []admin.Denied{blockedRow(&d.overrides()[0], 40), deniedRow("full", 3),
			deniedRow("near", 2)}})
		d.second()
	}
	if want := "[full] near tenant:acme:user:7 calm ip:203.0.113.9"; d.subjects() != want {
		t.Errorf("it shows %s, want %s", d.subjects(), want)
	}
	for _, want := range []string{"DENIED 5\\.0/s", "2 keys denied", "1 block denying 40/s", "full .* 3\\.0",
		"ip:203.0.113.9 .* block "} {
		if !regexp.MustCompile(want).MatchString(d.View()) {
			t.Errorf("it does not show %q:\n%s", want, d.View())
		}
	}
	for range 12 {
		d.second()
	}
	if text := d.View(); strings.Contains(text, "denying 40/s") || len(d.feed.Denials.Rates) > 0 {
		t.Errorf("when it denies no more:\n%s", text)
	}
}
