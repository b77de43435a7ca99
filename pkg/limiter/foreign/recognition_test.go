package foreign

import (
	"errors"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Over the vectors of all layouts no key is claimed by another layout than its own, and by its
// own if that is certain.
func TestNoLimitIsClaimedTwice(t *testing.T) {
	sources, everything := autoSources(), &limiter.Query{Subjects: pattern(t, "*")}
	for name, vectors := range vectors() {
		layout, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range vectors {
			v := &vectors[i]
			t.Run(name+"/"+v.name, func(t *testing.T) {
				look := sources.Look(v.storeKey, everything)
				if look == nil {
					return
				}
				look.StoreKeys(v.now)
				entries, _, err := look.Judge(v.value)
				for j := range entries {
					if entries[j].Layout != name {
						t.Errorf("%s claims it: %+v", entries[j].Layout, entries[j])
					}
				}
				_, isUsual := layout.Match(v.storeKey, false)
				if wanted := v.certain && isUsual && v.wrong == "" && len(v.want) > 0; wanted != (len(entries) > 0) {
					t.Errorf("it is claimed: %v, want %v; the error is %v", len(entries) > 0, wanted, err)
				}
				if errors.Is(err, limiter.ErrForeign) {
					t.Errorf("nobody asked, and the error is %v", err)
				}
			})
		}
	}
}
