package layouts

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What is not in the form of a limiter's keys is nobody's, unless it is asked for. Nobody is warned of an integer or
// a set of times under any name.
func TestNames(t *testing.T) {
	const nobody = kongNobody + ":" + kongNobody
	for _, test := range []struct {
		layout       Layout
		storeKeys    string
		match, asked bool
	}{
		{layout: named("apisix"), storeKeys: "plugin-limit-count plugin-limit-count:a plugin-limit-count:v1: " +
			"limit_req:a limit_conn:a " +
			"plugin-limit-count:gold:alice.29921572.counter plugin-limit-count:v1:a plugin-limit-count:v1:a:"},
		{layout: named("envoy"), storeKeys: "1795294320 a_1795294320 a_b_1795294320 a_b_c_17952943200 a_b_c_d " +
			"a_b_c_-795294320"},
		{layout: named("kong"), storeKeys: "ratelimit: ratelimit:a:b:c"},
		// not the begin of a minute
		{layout: named("kong"), storeKeys: "ratelimit:" + nobody + ":c:1795294321000:minute " +
			"ratelimit:" + nobody + ":c:1795294320000:week " + "ratelimit:" + nobody + "::1795294320000:minute " +
			"ratelimit:" + nobody + ":c:-1795294320000:minute " + "response-ratelimit:" + nobody +
			":c:1795294320000:minute " +
			"ratelimit:" + nobody + ":c:1793491200000:year"},
		{layout: named("kong"), storeKeys: "ratelimit:a:b:c:1795294320000:minute", asked: true},
		{layout: named("counter"), storeKeys: "rate_limit:9 api:RateLimit:9 throttle:9 rl:9 quota:9", match: true,
			asked: true},
		{layout: named("time-set"), storeKeys: "rate_limit:9 api:RateLimit:9 throttle:9 rl:9 quota:9", match: true,
			asked: true},
		{layout: named("counter"), storeKeys: "session:9 views timeline:9", asked: true},
		{layout: named("time-set"), storeKeys: "session:9 views timeline:9", asked: true},
	} {
		for _, storeKey := range strings.Fields(test.storeKeys) {
			_, match := test.layout.Match(storeKey, false)
			if _, asked := test.layout.Match(storeKey, true); match != test.match || asked != test.asked {
				t.Errorf("%s matches %s: %v, and asked %v", test.layout.Info().Name, storeKey, match, asked)
			}
		}
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]store.Limit{
		"10/1m":               {Count: 10, Period: time.Minute},
		"fixed-window:10/1m":  {Algorithm: store.FixedWindow, Count: 10, Period: time.Minute},
		"10":                  {Count: 10},
		"10,burst=20":         {Count: 10, Burst: 20},
		"leaky-bucket:10/30s": {Algorithm: store.LeakyBucket, Count: 10, Period: 30 * time.Second},
	} {
		if got, err := ParseLimit(text); err != nil || got != want {
			t.Errorf("%q is read as %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":        `limit "" is neither COUNT/PERIOD, such as 10/1m, nor a COUNT, such as 10`,
		"nosuch:": `limit "nosuch:" is neither COUNT/PERIOD, such as 10/1m, nor a COUNT, such as 10`,
	} {
		if _, err := ParseLimit(text); !errors.Is(err, store.ErrInvalid) || err.Error() != want {
			t.Errorf("%q: the error is %v, want %s", text, err, want)
		}
	}
}

const layoutsPath = "../../../docs/layouts.md"

var updateTable = flag.Bool("update", false, "write the table of docs/layouts.md as the layouts are now")

// The table of docs/layouts.md is what the layouts say of themselves. Write it anew with `make docs`.
func TestTheTableOfLayoutsIsUpToDate(t *testing.T) {
	page := must(os.ReadFile(layoutsPath))
	const begin, end = "| `--layout` |", "\n\n"
	before, rest, found := strings.Cut(string(page), begin)
	was, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no table that begins with %q", layoutsPath, begin)
	}
	want := layoutsTable()
	if begin+was == want {
		return
	}
	if !*updateTable {
		t.Fatalf("the table of %s is not up to date; `make docs` writes it", layoutsPath)
	}
	if err := os.WriteFile(layoutsPath, []byte(before+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func layoutsTable() string {
	var b strings.Builder
	b.WriteString("| `--layout` | written by | a key | needs | a reset does not reach |\n|---|---|---|---|---|")
	code := strings.NewReplacer("|", "\\|", "\n", "\\n")
	text := strings.NewReplacer("|", "\\|", "\n", "\\n", "_", "\\_", "*", "\\*", "<", "\\<")
	for _, layout := range All() {
		l := layout.Info()
		fmt.Fprintf(&b, "\n| `%s` | %s | `%s` | %s | %s |", l.Name, text.Replace(l.Writer), code.Replace(l.Example),
			text.Replace(l.Needs), text.Replace(l.Beyond))
	}
	return b.String()
}
