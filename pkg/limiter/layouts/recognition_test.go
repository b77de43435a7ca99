package layouts

import (
	"errors"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Over the vectors of all layouts no key is claimed by another layout than its own, and by its
// own if that is certain.
func TestNoLimitIsClaimedTwice(t *testing.T) {
	sources, everything := autoSources(), &admin.Query{Subjects: pattern(t, "*")}
	for name, vectors := range vectors() {
		layout := must(Named(name))
		for i := range vectors {
			v := &vectors[i]
			t.Run(name+"/"+v.name, func(t *testing.T) {
				look := sources.Look(v.storeKey, everything)
				if look == nil {
					return
				}
				look.StoreKeys(v.now)
				entries, _, err := look.Judge(v.value)
				claims := ""
				if len(entries) > 0 {
					claims = entries[0].Layout
				}
				wants := ""
				if v.isCertain(layout) {
					wants = name
				}
				if claims != wants {
					t.Errorf("it is claimed by %q, want %q; the error is %v", claims, wants, err)
				}
				if errors.Is(err, store.ErrForeign) {
					t.Errorf("nobody asked, and the error is %v", err)
				}
			})
		}
	}
}

// isCertain reports whether a layout is certain of a vector when nobody says anything.
func (v *vector) isCertain(layout Layout) bool {
	key, isUsual := layout.Match(v.storeKey, false)
	found := &Found{StoreKey: v.storeKey, Key: key, Now: v.now}
	for _, storeKey := range layout.Together(v.storeKey, store.Limit{}, v.now) {
		found.Values = append(found.Values, v.value(storeKey))
	}
	reading, err := decode(layout, found)
	return isUsual && err == nil && reading.Certain && len(reading.Entries) > 0
}
