package see

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/clitest"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// inspecting returns an inspect of all keys, with a change made to its flags.
func inspecting(t *testing.T, change func(*inspectOptions)) *inspectOptions {
	t.Helper()
	o := &inspectOptions{Globals: &cli.Globals{Env: clitest.Env(t), Flags: cli.Flags{Quiet: true, Timeout: time.Second,
		Changed: func(string) bool { return false }}}}
	if change != nil {
		change(o)
	}
	if err := o.parse(t.Context(), []string{"*"}); err != nil {
		t.Fatal(err)
	}
	return o
}

// shownAs is what inspect answers about entries of which not all is known.
func shownAs(t *testing.T, format output.Format, change func(*inspectOptions)) string {
	t.Helper()
	o := inspecting(t, change)
	answer, _, err := o.look(context.Background(), storetest.NotAllKnown(), &keyFacts{}, o.limit)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&output.Printer{Out: &out, Data: &out, Format: format}).Answer(answer); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestInspectShowsWhatIsNotKnown(t *testing.T) {
	table := strings.Split(shownAs(t, "table", nil), "\n")
	for i, want := range []string{
		"SUBJECT NAME LIMIT USED REMAINING RESETS IN",
		"whole hits fixed-window:10/1m ██████████ 10/10 0 30s",
		"no-period hits fixed-window:10/? █████████░ 9/10 1 30s",
		"no-count hits fixed-window:?/1m 8/? ? 30s", // no share: these come last, by what is used
		"used-only hits unknown 7/? ? 30s",
		"silent hits unknown ?/? ? no TTL",
	} {
		if got := strings.Join(strings.Fields(table[i]), " "); got != want {
			t.Errorf("line %d of the table is %q, want %q", i, got, want)
		}
	}

	if csv := shownAs(t, "csv", nil); !strings.Contains(csv,
		"\nno-count,counter:no-count,30000,hits,,,fixed-window,,60000,,0,,8,,,30000,,0,,,,,,,\n") {
		t.Errorf("the CSV is\n%s", csv)
	}
	if text := shownAs(t, "jsonl", nil); strings.Count(text, `"count":null`) != 3 {
		t.Errorf("the lines of JSON are\n%s", text)
	}
}

func TestOrdersPutWhatIsNotKnownLast(t *testing.T) {
	for order, want := range map[string]string{
		"share": "whole no-period no-count used-only silent",
		"used":  "whole no-period no-count used-only silent",
		"key":   "no-count no-period silent used-only whole",
		"bytes": "no-count no-period silent used-only whole",
	} {
		text := shownAs(t, "csv", func(o *inspectOptions) { o.sort = order })
		var got []string
		for _, line := range strings.Split(strings.TrimSpace(text), "\n")[1:] {
			got = append(got, line[:strings.Index(line, ",")])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s they are %v, want %s", order, got, want)
		}
	}
	if len(orders()) != 5 { // that of denials needs a store that counts them
		t.Error("an order is not tested")
	}
}

func TestSelectionsOfStateNeedItKnown(t *testing.T) {
	for flags, want := range map[string]int64{"": 5, "denied": 1, "min-used": 2, "no-ttl": 1} {
		o := inspecting(t, func(o *inspectOptions) {
			o.AtLimit, o.NoTTL = flags == "denied", flags == "no-ttl"
			if flags == "min-used" {
				o.MinUsed = "0%"
			}
		})
		_, found, err := o.look(context.Background(), storetest.NotAllKnown(), &keyFacts{}, 0)
		if err != nil || found.Matched != want {
			t.Errorf("%q: %d matched, want %d; %v", flags, found.Matched, want, err)
		}
	}
}

func TestASummaryOfWhatIsNotKnown(t *testing.T) {
	if text := shownAs(t, "jsonl", func(o *inspectOptions) { o.summary, o.by = true, ofLimits }); !strings.Contains(
		text,
		`{"by":"limit","value":"hits","keys":5,"at_limit":1,"bytes":0}`) {
		t.Errorf("it is %s", text)
	}
}
