package override

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// made returns an override in force for another hour.
func made(t *testing.T, id, subjects string, effect store.OverrideEffect) store.Override {
	t.Helper()
	o := store.Override{ID: id, Effect: effect, Thousandths: 3000, By: "ana", Reason: "ticket " + id, ExpiresAt: hour.Add(time.Hour),
		Left: time.Hour, CreatedAt: hour}
	if subjects != "" {
		pattern, err := store.ParsePattern(subjects)
		if err != nil {
			t.Fatal(err)
		}
		o.Subjects = pattern
	}
	return o
}

var hour = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

// On a narrow terminal no subject, limit, effect or ID is cut, and no line is wider than the terminal.
func TestANarrowListLosesNothing(t *testing.T) {
	long := made(t, "aaaaaaaa", "tenant:acme:user:7:route:/orders:"+strings.Repeat("x", 60)+"  end", store.OverrideLimit)
	long.Limit, _ = store.ParseLimit("token-bucket:2000/1h,burst=123456")
	long.Reason = strings.Repeat("because of the launch ", 10)
	long.ExpiresAt = hour.Add(22 * time.Hour)
	hostile := made(t, "bbbbbbbb", "", store.OverrideBlock)
	hostile.Subjects, _ = store.ExactPattern("日本\u202e*")
	named := made(t, "cccccccc", "", store.OverrideExempt)
	named.Attributes = map[string]string{"tenant": "globex"}
	named.Names, _ = store.ParsePattern("exports/*")
	short := []store.Override{made(t, "dddddddd", "tenant:acme:*", store.OverrideTimes), named}
	for _, list := range [][]store.Override{short, append([]store.Override{long, hostile}, short...)} {
		for _, width := range []int{20, 40, 80, 100} {
			a := &overrideAnswer{now: hour, others: together(list, nil)}
			for i := range list {
				a.overrides = append(a.overrides, &list[i])
			}
			var b bytes.Buffer
			a.Print(&output.Printer{Out: &b, Width: width})
			for line := range strings.Lines(b.String()) {
				if is := output.Width(strings.TrimSuffix(line, "\n")); is > width && !strings.HasPrefix(line, "aaaaaaaa") {
					t.Errorf("%d columns on a terminal of %d: %s", is, width, line)
				}
			}
			joined := strings.ReplaceAll(b.String(), "\n    ", "")
			for i := range list {
				o := &list[i]
				for _, text := range []string{o.ID, output.Printable(allowance.Whom(o)), output.Printable(allowance.Pattern(o.Names)),
					allowance.Effect(o), o.By} {
					if text != "*" && !strings.Contains(strings.ReplaceAll(joined, " ", ""), strings.ReplaceAll(text, " ", "")) {
						t.Errorf("%q is missing at %d columns:\n%s", text, width, b.String())
					}
				}
			}
			if strings.Contains(b.String(), "…") {
				t.Errorf("something is cut at %d columns:\n%s", width, b.String())
			}
		}
	}
}

// The date stands where the end is not today.
func TestAnEndTomorrowHasItsDate(t *testing.T) {
	tomorrow := made(t, "aaaaaaaa", "a", store.OverrideBlock)
	tomorrow.ExpiresAt, tomorrow.Left = hour.Add(23*time.Hour), 23*time.Hour
	today := made(t, "bbbbbbbb", "b", store.OverrideBlock)
	today.ExpiresAt = hour.Add(21*time.Hour - time.Second)
	for _, width := range []int{0, 60} {
		var b bytes.Buffer
		(&overrideAnswer{now: hour, overrides: []*store.Override{&tomorrow, &today}}).Print(&output.Printer{Out: &b, Width: width})
		if text := b.String(); !strings.Contains(text, "2026-11-23 02:00:00 UTC") || !strings.Contains(text, " 23:59:59 UTC") ||
			strings.Contains(text, "2026-11-22") {
			t.Errorf("at width %d:\n%s", width, text)
		}
	}
}

// Which of two overrides applies where both can, as store.OverrideList has it.
func TestWhichOverrideLoses(t *testing.T) {
	block, exempt, times := store.OverrideBlock, store.OverrideExempt, store.OverrideTimes
	acme := func(id string, effect store.OverrideEffect) store.Override {
		o := made(t, id, "", effect)
		o.Attributes = map[string]string{"tenant": "acme"}
		o.Names, _ = store.ParsePattern("api/*")
		return o
	}
	limited := made(t, "limited0", "tenant:acme:*", times)
	limited.Names, _ = store.ParsePattern("exports/*")
	other := acme("otheratt", times)
	other.Attributes = map[string]string{"tenant": "globex"}
	user := acme("userattr", times)
	user.Attributes = map[string]string{"user": "7"}
	for _, test := range []struct {
		name string
		list []store.Override
		want string
	}{
		{"a block over an exemption, and both over others", []store.Override{made(t, "tttttttt", "tenant:acme:user:7", times),
			made(t, "eeeeeeee", "tenant:*", exempt), made(t, "bbbbbbbb", "tenant:acme:*", block)},
			"bbbbbbbb over eeeeeeee, tttttttt|eeeeeeee loses to bbbbbbbb; over tttttttt|tttttttt loses to bbbbbbbb, eeeeeeee|"},
		{"a smaller network", []store.Override{made(t, "wide0000", "ip:203.0.113.0/24", times),
			made(t, "small000", "ip:203.0.113.8/29", times),
			made(t, "away0000", "ip:198.51.100.0/24", times)},
			"small000 over wide0000|away0000 |wide0000 loses to small000|"},
		{"attributes", []store.Override{acme("aaaaaaaa", block), other, user, made(t, "subject0", "tenant:acme:user:7", times),
			made(t, "globex00", "tenant:globex", times), limited},
			"aaaaaaaa over subject0, userattr|subject0 loses to aaaaaaaa; over limited0, userattr|" +
				"globex00 over otheratt|limited0 loses to subject0|otheratt loses to globex00; over userattr|" +
				"userattr loses to aaaaaaaa, subject0, otheratt|"},
		{"many", []store.Override{made(t, "aaaaaaaa", "a", block), made(t, "bbbbbbbb", "a", times), made(t, "cccccccc", "a", times),
			made(t, "dddddddd", "a", times), made(t, "eeeeeeee", "a", times)},
			"aaaaaaaa over bbbbbbbb, cccccccc, dddddddd and 1 more"},
	} {
		found := together(test.list, nil)
		var got strings.Builder
		for _, o := range store.NewOverrideList(test.list).All() {
			fmt.Fprintf(&got, "%s %s|", o.ID, found[o.ID].text())
		}
		if !strings.HasPrefix(got.String(), test.want) {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got.String(), test.want)
		}
	}
}

// An override for a known policy meets only those that keys of the policy can have.
func TestWhichOverridesMeetInAPolicy(t *testing.T) {
	limit := func(name string, by ...string) policy.Limit {
		return policy.Limit{Name: name, By: by, Limit: store.Limit{Count: 10, Period: time.Hour}}
	}
	policies := []*policy.Policy{
		{Name: "exports", Limits: []policy.Limit{limit("day", "tenant")}},
		{Name: "api", Limits: []policy.Limit{limit("t", "tenant"), limit("u", "tenant", "ip"), limit("i", "ip")}},
		{Name: "hashed", HashBy: []string{"tenant"}, Limits: []policy.Limit{limit("t", "tenant"), limit("u", "tenant", "user")}},
	}
	of := func(subjects, names string, attributes ...string) *store.Override {
		o := made(t, "aaaaaaaa", subjects, store.OverrideBlock)
		if names != "" {
			o.Names, _ = store.ParsePattern(names)
		}
		for _, attribute := range attributes {
			name, value, _ := strings.Cut(attribute, "=")
			if o.Attributes == nil {
				o.Attributes = map[string]string{}
			}
			o.Attributes[name] = value
		}
		return &o
	}
	network := of("ip:203.0.113.0/24", "")
	for _, test := range []struct {
		name string
		a, b *store.Override
		want bool
	}{
		{"a network, and keys without addresses", network, of("", "exports/*", "tenant=acme"), false},
		{"a network, and keys with one", network, of("", "api/*"), true},
		{"a network, and keys that begin with another attribute", network, of("", "api/*", "tenant=acme"), false},
		{"a network, and a limit without", network, of("", "api/t", "tenant=acme"), false},
		{"an unknown policy", network, of("", "other/*", "tenant=acme"), true},
		{"any policy", network, of("", "*/*", "tenant=acme"), true},
		{"no policy", network, of("tenant:*", ""), false},
		{"a pattern of the same tenant", of("tenant:acme*", ""), of("", "exports/*", "tenant=acme"), true},
		{"a pattern of another", of("tenant:globex*", ""), of("", "exports/*", "tenant=acme"), false},
		{"attributes that no limit has together", of("", "api/*", "tenant=acme", "user=7"), of("", "api/*", "tenant=acme"), false},
		{"attributes that one limit has", of("", "api/*", "ip=1"), of("", "api/*", "tenant=acme"), true},
		{"a value that is no pattern", of(`tenant:a\*b*`, ""), of("", "exports/*", "tenant=a*b"), true},
		{"hash_by, and the name of a limit", of("", "hashed/u"), of("tenant:acme", "", "user=7"), true},
		{"hash_by, and the whole name", of("", "hashed/u:user:7"), of("", "hashed/*", "user=7"), true},
		{"hash_by, and another limit", of("", "hashed/t"), of("", "", "user=7"), false},
	} {
		for _, pair := range [][2]*store.Override{{test.a, test.b}, {test.b, test.a}} {
			if got := meet(pair[0], pair[1]) && meetIn(policies, pair[0], pair[1]); got != test.want {
				t.Errorf("%s: %v", test.name, got)
			}
		}
	}
}
