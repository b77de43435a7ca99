package dash

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var update = flag.Bool("update", false, "write what the frames are now")

// traffic is a minute of it, on keys of all kinds.
func traffic(d *driver) {
	tenants := []string{"acme", "globex", "initech"}
	for second := range 60 {
		d.now = d.now.Add(time.Second)
		for i, tenant := range tenants {
			for user := range 4 {
				if second%(1+i+user) == 0 {
					d.take(store.Key{Subject: fmt.Sprintf("tenant:%s:user:%d", tenant, user), Name: "api/user"},
						"60/1m", int64(3-i))
				}
			}
			d.take(store.Key{Subject: "tenant:" + tenant, Name: "api/tenant"}, "10000/1m,burst=2000", int64(170*(3-i)))
		}
		d.take(store.Key{Subject: "ip:203.0.113.9", Name: "login/ip"}, "10/1m", 1)
		d.deny(admin.Denials{Rows: []admin.Denied{
			{Key: store.Key{Subject: "ip:203.0.113.9", Name: "login/ip"}, Count: 6}}})
		if second > 40 {
			d.deny(admin.Denials{Rows: []admin.Denied{
				{Key: store.Key{Subject: "tenant:initech:user:9", Name: "api/user"},
					Count: 51}}, Others: 2})
		}
		if second%3 == 0 {
			d.take(store.Key{Subject: "利用者:山田太郎"}, "sliding-log:30/1m", 1)
			d.take(store.Key{Subject: "crème brûlée 🍮 " + strings.Repeat("very ", 20) + "long"}, "fixed-window:100/1h",
				4)
			d.take(store.Key{Subject: "mails"}, "leaky-bucket:5/1s,burst=40", 25)
			d.take(store.Key{Subject: "ip:2001:db8::7"}, "sliding-counter:1000000000/1d", 12_345_678)
		}
		d.second()
	}
}

// routes are keys whose subjects begin alike and end alike, and some that differ by their
// limits alone.
func routes(d *driver) {
	all := []string{"/v1/charges/capture", "/v1/charges/refund", "/v1/charges", "/v1/customers/sources",
		"/v1/customers/cards"}
	for i, route := range all {
		for _, user := range []int{7, 17, 170} {
			subject := fmt.Sprintf("tenant:acme:user:%d:route:%s", user, route)
			d.take(store.Key{Subject: subject}, "100/1m", int64(95-user/2-i))
		}
	}
	for name, cost := range map[string]int64{"api/user-route-minute": 40, "api/user-route-hour": 30,
		"api/user-route-day": 20} {
		d.take(store.Key{Subject: "tenant:acme:user:7:route:/v1/charges", Name: name}, "50/1h", cost)
	}
	for range 3 {
		d.deny(admin.Denials{Rows: []admin.Denied{
			{Key: store.Key{Subject: "tenant:acme:user:17:route:/v1/charges/refund",
				Name: "token-bucket/1m"}, Count: 37}}})
		d.second()
	}
}

// governed is traffic under overrides of all kinds, one of which is about no key that is in use.
func governed(d *driver) {
	traffic(d)
	var block store.Override
	for _, o := range []struct {
		whom string
		store.Override
	}{
		{"ip:203.0.113.0/24", store.Override{Effect: store.OverrideBlock, Reason: "scraper, ticket 4711",
			By: "ann@example.com"}},
		{"tenant:acme:user:*", store.Override{Effect: store.OverrideTimes, Thousandths: 3000, Reason: "launch day",
			By: "bob"}},
		{"tenant:globex", store.Override{Effect: store.OverrideExempt, Reason: strings.Repeat("a long story ", 9),
			By: "carol"}},
		{"user:$(rm -r ~)<b>é*", store.Override{Effect: store.OverrideBlock, Reason: "it is \"so\", \u202egone",
			By: "e\u200bve"}},
		{"tenant:umbrella:*:x", store.Override{
			Effect: store.OverrideLimit, Limit: store.Limit{Count: 600, Period: time.Minute}}},
	} {
		d.now = d.now.Add(time.Millisecond)
		subjects, err := store.ParsePattern(o.whom)
		must(d.t, err)
		o.Subjects = subjects
		set, err := d.store.SetOverride(d.t.Context(), o.Override, 2*time.Hour)
		must(d.t, err)
		if o.whom == "ip:203.0.113.0/24" {
			block = set
		}
	}
	for range 3 {
		d.deny(admin.Denials{Rows: []admin.Denied{blockedRow(&block, 6)}})
		d.second()
	}
}

// scraped is an attack from one network, whose addresses are each denied once a second, beside a busy tenant.
func scraped(d *driver) {
	for second := range 5 {
		var rows []admin.Denied
		for i := range 40 {
			rows = append(rows, admin.Denied{
				Key: store.Key{Subject: fmt.Sprintf("ip:203.0.113.%d", i), Name: "login/ip-hour"}, Count: 1})
			if second == 0 {
				d.take(rows[i].Key, "10/1h", 10)
			}
		}
		for i := range 3 {
			rows = append(rows, admin.Denied{
				Key: store.Key{Subject: fmt.Sprintf("tenant:acme:user:%d", i), Name: "api/user"}, Count: 5})
		}
		d.deny(admin.Denials{Rows: rows})
		d.second()
	}
}

// The main views at each size, and the others at the usual one. With colours at the usual size.
func TestFrames(t *testing.T) {
	usual := []tea.WindowSizeMsg{{Width: 80, Height: 24}}
	sizes := append(usual, []tea.WindowSizeMsg{{Width: 120, Height: 40}, {Width: 200, Height: 50},
		{Width: 40, Height: 10}}...)
	for _, view := range []struct {
		name, keys string
		sizes      []tea.WindowSizeMsg
		change     func(*live.Options)
		fill       func(*driver)
		then       func(*driver)
	}{
		{name: "keys", sizes: sizes},
		{name: "routes", keys: "/route<enter>", fill: routes, sizes: sizes},
		{name: "filter", keys: "/acme !user:0"},
		{name: "detail", keys: "j<enter>", sizes: sizes},
		{name: "help", keys: "?", sizes: sizes},
		{name: "reset", keys: "r", sizes: sizes},
		{name: "reset-protected", keys: "rpro", change: func(o *live.Options) {
			o.Context, o.Protected = "prod", true
		}},
		{name: "override", keys: "o<enter><enter><enter><enter>", sizes: sizes},
		{name: "override-asked", keys: "jo<enter><enter><enter><enter><enter>launch day<enter>"},
		{name: "in-common", fill: scraped, sizes: sizes},
		{name: "block-asked", keys: "/tenant:acme:user<enter>b<enter><bs>*<enter><enter><enter>scraper<enter>"},
		{name: "in-force", keys: "O", fill: governed, sizes: sizes},
		{name: "in-force-asked", keys: "Or", fill: governed},
		{name: "blocked", fill: governed},
		{name: "not-counted", change: func(o *live.Options) { o.NotCounted = true }, fill: three},
		{name: "cluster", sizes: sizes[1:2], change: func(o *live.Options) {
			o.Servers, o.Where = threeServers, "redis+cluster://10.0.0.1,10.0.0.2,10.0.0.3"
			o.Config = func() string { return "version 5" }
		}},
	} {
		t.Run(view.name, func(t *testing.T) {
			t.Parallel()
			if view.sizes == nil {
				view.sizes = usual
			}
			for _, size := range view.sizes {
				name := fmt.Sprintf("%s-%dx%d", view.name, size.Width, size.Height)
				shown := begin(t, nil, view.change)
				if size.Width == 80 {
					shown = beginIn(t, ui.OfTerminal(func(string) string { return "" }), nil, view.change)
					name += "-color"
				}
				if view.fill == nil {
					view.fill = traffic
				}
				view.fill(shown)
				shown.send(size)
				shown.press(view.keys)
				shown.second()
				frame := shown.View()
				for _, o := range shown.overrides() {
					frame = strings.ReplaceAll(frame, o.ID, strings.Repeat("x", len(o.ID)))
				}
				shown.checkSize(name, frame)
				golden(t, name+".txt", frame)
			}
		})
	}
}

// No terminal is too small, or of a size that a frame does not fill.
func TestFramesFitAnyTerminal(t *testing.T) {
	t.Parallel()
	many := begin(t, three, nil)
	many.feed.Away = slices.Grow(many.feed.Away, 28)[:28] // the head has a line for each of them
	many.send(tea.WindowSizeMsg{Width: 80, Height: 33})
	many.checkSize("with many nodes away", many.View())
	for _, keys := range []string{"", "/acme", "<enter>", "?", "r", "o"} {
		d := begin(t, three, func(o *live.Options) { o.Servers = threeServers })
		d.press(keys)
		for width := 1; width < 170; width += 13 {
			for height := 1; height < 32; height += 5 {
				d.send(tea.WindowSizeMsg{Width: width, Height: height})
				d.checkSize(fmt.Sprintf("%q at %dx%d", keys, width, height), d.View())
			}
		}
	}
}

func threeServers(context.Context) []live.Server {
	var servers []live.Server
	for i := range 3 {
		servers = append(servers, live.Server{Name: fmt.Sprintf("10.0.0.%d:6379", i+1), Version: "Valkey 8.0.1",
			Role:       "master",
			UsedMemory: 5_000_000, MaxMemory: 100_000_000, RoundTrip: time.Duration(i+1) * time.Millisecond})
	}
	servers[2] = live.Server{Name: servers[2].Name, Problem: "store unavailable: 10.0.0.3:6379 gave no answer in time"}
	return servers
}

// checkSize makes sure that a frame fills the terminal and goes nowhere beyond it.
func (d *driver) checkSize(name, frame string) {
	lines := strings.Split(frame, "\n")
	if len(lines) != d.height {
		d.t.Errorf("%s has %d lines, want %d", name, len(lines), d.height)
	}
	for i, text := range lines {
		if columns := ansi.StringWidth(text); columns > d.width {
			d.t.Errorf("%s: line %d is %d columns wide: %q", name, i, columns, text)
		}
	}
}

// golden compares a frame with the one that was looked at by a person.
func golden(t *testing.T, name, frame string) {
	t.Helper()
	var b strings.Builder
	for text := range strings.SplitSeq(frame, "\n") {
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	got := strings.ReplaceAll(b.String(), "\x1b", "^")
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s is now (go test ./internal/dash -update writes it):\n%s\nand was:\n%s", path, got, want)
	}
}
