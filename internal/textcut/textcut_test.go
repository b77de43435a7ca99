package textcut

import (
	"slices"
	"strings"
	"testing"

	"github.com/clipperhouse/displaywidth"
	"pgregory.net/rapid"
)

func TestDistinct(t *testing.T) {
	for name, test := range map[string]struct {
		subjects []string
		width    int
		prefix   string
		want     []string
	}{
		"fit":   {[]string{"tenant:acme:user:1", "ip:1"}, 18, "", []string{"tenant:acme:user:1", "ip:1"}},
		"none":  {nil, 10, "", nil},
		"fold":  {[]string{"tenant:acme:user:1", "tenant:acme:user:22"}, 18, "tenant:acme:user:", []string{"1", "22"}},
		"one":   {[]string{"tenant:acme:user:1"}, 17, "", []string{"tenant:a…e:user:1"}},
		"equal": {[]string{"tenant:acme", "tenant:acme"}, 10, "", []string{"tenan…acme", "tenan…acme"}},
		"long prefix": {[]string{"tenant:acme:user:7:refunds/1", "tenant:acme:user:7:refunds/2"}, 18,
			"tenant:acme:user:",
			[]string{"7:refunds/1", "7:refunds/2"}},
		"whole":  {[]string{"tenant:acme", "tenant:acme:u:1"}, 12, "tenant:", []string{"acme", "acme:u:1"}},
		"leaves": {[]string{"a:", "a:b:ccccccccccc"}, 8, "", []string{"a:", "a:b:…ccc"}},
		"middle": {[]string{"0123456789", "abcdefghijklm"}, 9, "", []string{"0123…6789", "abcd…jklm"}},
		"hash": {[]string{"aaaaaaaa7bbbbbbbbbbbbbb", "aaaaaaaa8bbbbbbbbbbbbbb", "aaaaaaaa"}, 12, "",
			[]string{"aaaaaa…~swck", "aaaaaa…~k2y2", "aaaaaaaa"}},
		"wide": {[]string{"日本語日本語1", "日本語日本語2", "日本"}, 8, "", []string{"日本…語1", "日本…語2", "日本"}},
	} {
		t.Run(name, func(t *testing.T) {
			prefix, cut := Distinct(test.subjects, test.width)
			if prefix != test.prefix || !slices.Equal(cut, test.want) {
				t.Errorf("it is %q %q, want %q %q", prefix, cut, test.prefix, test.want)
			}
		})
	}
}

// generated are subjects such as limits have: few words in many orders, so that they are
// alike at their beginning, at their end and in between.
func generated(words ...string) *rapid.Generator[[]string] {
	part := rapid.OneOf(rapid.SampledFrom(words),
		rapid.Map(rapid.IntRange(0, 30), func(n int) string { return strings.Repeat("x", n) }))
	subject := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 1, 9).Draw(t, "parts"),
			rapid.SampledFrom([]string{":", "/", "-"}).Draw(t, "between"))
	})
	return rapid.Custom(func(t *rapid.T) []string {
		before := rapid.SampledFrom([]string{"", "", "tenant:acme:", "日本:"}).Draw(t, "before")
		subjects := rapid.SliceOfN(subject, 1, 30).Draw(t, "subjects")
		for i := range subjects {
			subjects[i] = before + subjects[i]
		}
		return subjects
	})
}

// Different subjects look different at every width, nothing is wider than asked, and every
// piece that is shown is one of the subject's.
func TestDistinctTellsSubjectsApart(t *testing.T) {
	subjects := generated("tenant", "acme", "user", "7", "8", "17", "route", "v1", "charges", "{n}", "日本語", "é", "…",
		"~abcd", "🇩🇪",
		"👩‍👩‍👧")
	rapid.Check(t, func(t *rapid.T) {
		all, width := subjects.Draw(t, "all"), rapid.IntRange(leastWidth, 60).Draw(t, "width")
		prefix, cut := Distinct(all, width)
		texts := map[string]string{}
		for i, text := range cut {
			if displaywidth.String(text) > width {
				t.Errorf("%q is wider than %d", text, width)
			}
			if other, known := texts[text]; known && other != all[i] {
				t.Errorf("%q and %q look like %q at %d columns", other, all[i], text, width)
			}
			texts[text] = all[i]
			rest, is := strings.CutPrefix(all[i], prefix)
			if !is {
				t.Fatalf("%q does not begin with %q", all[i], prefix)
			}
			if strings.ContainsAny(all[i], "…~") {
				continue
			}
			text, _, _ = strings.Cut(text, "~")
			if first, _, isCut := strings.Cut(text, ellipsis); !strings.HasPrefix(rest, first) || !isCut &&
				first != rest {
				t.Errorf("%q is shown as %q", rest, text)
			}
			for piece := range strings.SplitSeq(text, ellipsis) {
				_, after, is := strings.Cut(rest, piece)
				if !is {
					t.Fatalf("%q is shown as %q", all[i], cut[i])
				}
				rest = after
			}
		}
	})
}
