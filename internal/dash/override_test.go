package dash

import (
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// all returns the overrides of the store.
func (d *driver) overrides() []store.Override {
	d.t.Helper()
	all, _, err := d.store.Overrides(d.t.Context())
	must(d.t, err)
	return all
}

// The form sets an override of the key under the cursor after a yes, its row shows it, and it
// ends by itself.
func TestAnOverrideFromTheRow(t *testing.T) {
	d := begin(t, three, nil)
	d.press("jo")
	d.press("<enter><enter><enter><enter><enter>launch day<enter>")
	text := d.View()
	for _, want := range []string{"Set this override for 2h?", "near token-bucket/1m",
		"token-bucket:10/1m becomes token-bucket:30/1m",
		"It ends by itself at 14:00.", "Reason: launch day"} {
		if !strings.Contains(text, want) {
			t.Errorf("asked, without %q:\n%s", want, text)
		}
	}
	if len(d.overrides()) != 0 {
		t.Fatal("it was set before the yes")
	}
	d.press("y")
	all := d.overrides()
	if len(all) != 1 || all[0].Thousandths != 3000 || all[0].Reason != "launch day" {
		t.Fatalf("set were %+v", all)
	}
	d.second()
	if text := d.View(); !strings.Contains(text, "> near") || !strings.Contains(text, "×3") {
		t.Errorf("its row:\n%s", text)
	}
	d.take(store.Key{Subject: "calm"}, "fixed-window:100/1h", 1)
	d.now = d.now.Add(2 * time.Hour)
	d.second()
	if text := d.View(); strings.Contains(text, "×3") {
		t.Errorf("after its end:\n%s", text)
	}
}

// A limit without a burst keeps that of the limit in force.
func TestALimitKeepsTheBurst(t *testing.T) {
	for typed, becomes := range map[string]string{"50/1h": "50/1h,burst=4.", "50/1h,burst=9": "50/1h,burst=9.",
		"fixed-window:50/1h": "50/1h.", "50/1h,burst=50": "50/1h."} {
		d := begin(t, func(d *driver) { d.take(store.Key{Subject: "a"}, "10/1h,burst=4", 3) }, nil)
		d.press("o<right><right><enter>" + typed + "<enter><enter><enter><enter><enter>")
		text := strings.ReplaceAll(d.View(), " ", ".")
		if !strings.Contains(text, "token-bucket:10/1h,burst=4.becomes.") || !strings.Contains(text, becomes) {
			t.Errorf("%s, without %q:\n%s", typed, becomes, text)
		}
	}
}

// An exemption of a key that a block denies would change nothing.
func TestAnOverrideThatAnotherHides(t *testing.T) {
	d := begin(t, three, nil)
	d.press("b<enter><enter><enter><enter><enter>y")
	d.second()
	d.press("<end>e<enter><enter><enter><enter><enter>") // blocked rows are last
	if text := d.View(); !strings.Contains(text, "Nothing changes here") ||
		!strings.Contains(text, "In force now: block") {
		t.Error(text)
	}
	d.press("nb<enter><enter><enter>1h<enter><enter>")
	if text := d.View(); !strings.Contains(text, "Everything is denied") {
		t.Error(text)
	}
}

// The question says so if a pattern leaves the key under the cursor out.
func TestAPatternThatLeavesTheKeyOut(t *testing.T) {
	d := begin(t, three, nil)
	d.press("b<enter><bs><bs><bs><bs>ne*<enter><enter><enter><enter>")
	if text := d.View(); !strings.Contains(text, "It is NOT about full token-bucket/1m") ||
		!strings.Contains(text, "about 1 other key") {
		t.Errorf("of a pattern that leaves the key out it says:\n%s", text)
	}
}

// The form is about the key itself, or a pattern that is made of it. One of everybody is not taken.
func TestTheFormOfAnOverride(t *testing.T) {
	for keys, want := range map[string]string{
		"o<right><right><enter><enter><enter><enter><enter><enter>y": "full token-bucket:600/1m of token-bucket/1m",
		"o<left><left><enter><enter><enter><enter><enter>y":          "full block of token-bucket/1m",
		"e<enter><enter><enter><enter><enter>n":                      "",
		"e<esc>":                                                     "",
		"e<enter><enter><enter>x<enter><enter>y":                     "", // 2hx is no duration
		"b<enter><enter><enter><enter><enter>y":                      "full block",
		"b<enter><bs>*<enter><enter><enter>scraper<enter>y":          "ful* block",
		"e<enter><enter><enter>1d<enter><enter>y":                    "full exempt", // in place of 2h
		"e<enter><enter> <enter><enter><enter>y":                     "full exempt of token-bucket/1m",
		"b<enter><bs><bs><bs><bs>*<enter><enter><enter><enter>y":     "",
		"b<enter><bs><bs><bs><bs>ne*<enter><enter><enter><enter>n":   "",
		"b<enter><bs><bs><bs><bs>ne*<enter><enter><enter><enter>y":   "ne* block",
		"b<enter><bs><bs><bs><bs>[<enter><enter><enter><enter>y":     "",
	} {
		d := begin(t, three, nil)
		d.press(keys)
		got := ""
		for _, o := range d.overrides() {
			got = o.Subjects.String() + " " + allowance.Effect(&o)
			if !o.Names.IsZero() {
				got += " of " + o.Names.String()
			}
		}
		if got != want {
			t.Errorf("%q sets %q, want %q:\n%s", keys, got, want, d.View())
		}
	}
}
