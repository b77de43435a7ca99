package change

import (
	"testing"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A subject that looks like a pattern is blocked as the subject that it is.
func TestABlockOfASubjectThatLooksLikeAPattern(t *testing.T) {
	for _, subject := range []string{"a*b", `a\b`, "[ab]", "ip:203.0.113.0/24"} {
		row := &live.Row{Reading: live.Reading{Entry: admin.Entry{Key: store.Key{Subject: subject, Name: "n"}}}}
		f := newForm(row, store.OverrideBlock)
		got, err := f.whom(store.ParsePattern)
		if exact, is := got.Exact(); err != nil || !is || exact != subject {
			t.Errorf("%q: it is about %q, %v", subject, got, err)
		}
		f.inputs[whomField].SetValue(store.EscapeGlob(subject) + "*")
		if got, err = f.whom(store.ParsePattern); err != nil || !got.Match(subject+"x") {
			t.Errorf("%q made longer: it is about %q, %v", subject, got, err)
		}
	}
	// Without a need nothing is escaped: unblock finds the block of a pattern by its text.
	if plain := "tenant:acme-corp^1"; store.EscapeGlob(plain) != plain {
		t.Errorf("%q is offered as %q", plain, store.EscapeGlob(plain))
	}
}
