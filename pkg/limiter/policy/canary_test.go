package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func limitOf(name, limit string, by ...string) Limit {
	parsed, err := store.ParseLimit(limit)
	if err != nil {
		panic(err)
	}
	return Limit{Name: name, By: by, Limit: parsed}
}

// The values of a share are the same for ever, and those of a smaller one are among those of a larger one.
func TestASmallerShareIsInALargerOne(t *testing.T) {
	for value, place := range map[string]int{"acme": 9872, "globex": 6599, "": 1652, "user:42": 770} {
		for share := range WholeShare + 1 {
			if InShare(value, share) != (place < share) {
				t.Fatalf("%q is in a share of %d: %t", value, share, InShare(value, share))
			}
		}
	}
	chosen := 0
	for i := range 100_000 {
		if InShare(fmt.Sprint("tenant-", i), 2000) {
			chosen++
		}
	}
	if chosen < 19_000 || chosen > 21_000 {
		t.Errorf("a share of 20 %% has %d of 100,000", chosen)
	}
}

// A limit of the next version shares usage only if it counts alike, for each request.
func TestWhatSharesUsage(t *testing.T) {
	exception := func(l Limit, when, limit string) Limit {
		l.Exceptions = append(l.Exceptions, Exception{Attributes{"plan": when}, limitOf("", limit).Limit})
		return l
	}
	old := limitOf("user", "10/1m", "user")
	for name, test := range map[string]struct {
		old, next Limit
		shares    bool
	}{
		"another count":     {old, limitOf("user", "5/1m", "user"), true},
		"another burst":     {old, limitOf("user", "10/1m,burst=3", "user"), true},
		"another period":    {old, limitOf("user", "10/2m", "user"), false},
		"another algorithm": {old, limitOf("user", "sliding-log:10/1m", "user"), false},
		"slices": {limitOf("user", "sliding-counter:10/1m", "user"), limitOf("user", "sliding-counter:10/1m,slices=10", "user"),
			false},
		"the calendar of another zone": {limitOf("user", "fixed-window:10/1d,tz=Europe/Berlin", "user"),
			limitOf("user", "fixed-window:10/1d,tz=Asia/Tokyo", "user"), false},
		"the same calendar": {limitOf("user", "fixed-window:10/1d,tz=Europe/Berlin", "user"),
			limitOf("user", "fixed-window:9/1d,tz=Europe/Berlin", "user"), true},
		"another subject":     {old, limitOf("user", "10/1m", "tenant"), false},
		"another name":        {old, limitOf("person", "10/1m", "user"), false},
		"an exception":        {old, exception(old, "pro", "99/1m"), true},
		"an unlike exception": {old, exception(old, "pro", "99/1h"), false},
		"the same exceptions": {exception(old, "pro", "99/1h"), exception(old, "pro", "50/1h"), true},
		"for others":          {exception(old, "pro", "99/1h"), exception(old, "big", "99/1h"), false},
	} {
		p, next := &Policy{Name: "api", Limits: []Limit{test.old}}, &Policy{Name: "api", Limits: []Limit{test.next}}
		if got := p.SharesUsage(next, &next.Limits[0]); got != test.shares {
			t.Errorf("%s: it shares usage: %t", name, got)
		}
		want := test.next.Name
		if !test.shares {
			want += "~next"
		}
		with := p.WithCanary(Canary{Next: next})
		if got := with.Next().Limits[0].Name; got != want || next.Limits[0].Name != test.next.Name || p.Next() != nil {
			t.Errorf("%s: it counts as %s, and the version itself has %s", name, got, next.Limits[0].Name)
		}
	}
}

// A share is decided by the next version alone, and other calls by the version in force alone; one that lacks what the next
// version needs, too. Both accept what one of them needs.
func TestOneVersionDecidesACall(t *testing.T) {
	p := &Policy{Name: "api", Limits: []Limit{limitOf("user", "10/1m", "user"), limitOf("day", "100/1d", "user")}}
	next := &Policy{Name: "api", Limits: []Limit{limitOf("tenant", "50/1m", "tenant"), limitOf("user", "5/1m", "user")}}
	ended, unfit := false, 0
	prepared := p.WithCanary(Canary{Next: next, Share: 7000, By: "user", Ended: func() bool { return ended }, Unfit: func() { unfit++ },
		Decided: func(bool, []store.Request, []store.Decision) {}}).Prepare()
	names := func(attributes Attributes) string {
		t.Helper()
		asks := prepared.For(attributes)
		reqs, exceptions, err := asks.AppendRequests(nil, nil, attributes, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(exceptions) != len(reqs) || (reqs[0].Trial == nil) != ended {
			t.Errorf("%v: %v", attributes, reqs)
		}
		text := ""
		for i := range reqs {
			text += reqs[i].Key.String() + " " + reqs[i].Limit.String() + "; "
		}
		return text
	}
	const old = "user:globex api/user token-bucket:10/1m; user:globex api/day token-bucket:100/1d; "
	const other = "user:acme api/user token-bucket:10/1m; user:acme api/day token-bucket:100/1d; "
	for what, test := range map[string]struct {
		attributes Attributes
		want       string
	}{
		"one of the share": {Attributes{"user": "globex", "tenant": "t"},
			"tenant:t api/tenant~next token-bucket:50/1m; user:globex api/user token-bucket:5/1m; "},
		"one without what the next version needs": {Attributes{"user": "globex"}, old},
		"another":                       {Attributes{"user": "acme", "tenant": "t"}, other},
		"another without the attribute": {Attributes{"user": "acme"}, other},
	} {
		if got := names(test.attributes); got != test.want {
			t.Errorf("%s is decided by\n%s, want\n%s", what, got, test.want)
		}
	}
	if unfit != 1 {
		t.Errorf("%d calls lacked something, want 1", unfit)
	}
	ended = true
	if got := names(Attributes{"user": "globex", "tenant": "t"}); got != old {
		t.Errorf("after the end it is decided by %s", got)
	}
}

// A shadow carries what the next version would ask, and changes no request.
func TestAShadowCarriesTheNextVersion(t *testing.T) {
	p := &Policy{Name: "api", Limits: []Limit{limitOf("user", "10/1m", "user")}}
	next := &Policy{Name: "api", Limits: []Limit{limitOf("user", "5/1m", "user"), limitOf("day", "100/1d", "user")}}
	next.Limits[1].Cost = Cost{Units: 7}
	prepared := p.WithCanary(Canary{Next: next}).Prepare()
	attributes := Attributes{"user": "globex"}
	reqs, _, err := prepared.For(attributes).AppendRequests([]store.Request{{Cost: 9}}, []int{0}, attributes, 3)
	if err != nil || len(reqs) != 2 || reqs[0].Trial != nil || reqs[1].Limit.Count != 10 || reqs[1].Limit.Period != time.Minute {
		t.Fatalf("%v, %v", reqs, err)
	}
	trial := reqs[1].Trial
	if trial == nil || len(trial.Requests) != 2 || trial.Requests[0].Key != reqs[1].Key || trial.Requests[0].Limit.Count != 5 ||
		trial.Requests[0].Cost != 3 || trial.Requests[1].Key.Name != "api/day~next" || trial.Requests[1].Cost != 7 {
		t.Errorf("%+v", trial)
	}
}
