package override

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What an override is set beside is named, by which of the two applies; the same override is not beside itself.
func TestWhatAnOverrideIsSetBeside(t *testing.T) {
	now := time.Date(2026, 11, 25, 1, 0, 0, 0, time.UTC)
	override := func(id, subjects string, effect store.OverrideEffect) store.Override {
		p, err := store.ParsePattern(subjects)
		if err != nil {
			t.Fatal(err)
		}
		o := store.Override{ID: id, Subjects: p, Effect: effect, Reason: "r of " + id, By: "ann", CreatedAt: now,
			ExpiresAt: now.Add(time.Hour), Left: time.Hour}
		if effect == store.OverrideTimes {
			o.Thousandths = 2000
		}
		return o
	}
	set := override("same", "tenant:acme:*", store.OverrideExempt)
	b := besideOf(&set, []store.Override{
		override("twice", "tenant:*", store.OverrideTimes), override("block", "tenant:acme:user:7", store.OverrideBlock),
		override("other", "tenant:other", store.OverrideBlock), set,
	}, nil)
	if o := b.others(); b.same == nil || b.same.ID != "same" || !slices.Equal(o.over, []string{"twice"}) ||
		!slices.Equal(o.losesTo, []string{"block"}) {
		t.Fatalf("%+v", b)
	}
	lines := func(b *beside, said *operation.Concerned) (lines []string) {
		b.say(func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }, now, said)
		return lines
	}
	const first = "where both match, override block: tenant:acme:user:7, block until 02:00:00 UTC (1h left), by ann: r of block applies, " +
		"and not this one"
	const after = "where both match, this one applies, and not override twice: tenant:*, ×2 until 02:00:00 UTC (1h left), " +
		"by ann: r of twice"
	if got := lines(b, nil); !slices.Equal(got, []string{first, after}) {
		t.Errorf("%q", got)
	}
	said := &operation.Concerned{Winning: []operation.WinningOverride{{Override: &b.first[0]}}}
	if got := lines(b, said); !slices.Equal(got, []string{after}) {
		t.Errorf("with what is said already: %q", got)
	}

	var many []store.Override
	for i := range 5 {
		many = append(many, override(fmt.Sprint("b", i), fmt.Sprint("tenant:acme:", i), store.OverrideBlock))
	}
	got := lines(besideOf(&set, many, nil), nil)
	if len(got) != 4 || !strings.HasPrefix(got[2], "where both match, override b2:") ||
		got[3] != "… and so on for 2 more (limitctl override list)" {
		t.Errorf("of many: %q", got)
	}
}
