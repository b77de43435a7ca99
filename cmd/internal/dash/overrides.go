package dash

import (
	"time"

	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// overrides are the overrides that are in force.
type overrides struct {
	reader   *source.OverrideReader // nil if the store keeps none
	fetching bool
	looked   bool                // the first look is over
	list     *store.OverrideList // nil if there are none, or they are not known
	problem  error
}

// overridesDue: the overrides are to be looked at again.
type overridesDue struct{}

// overridesEvery is the least time between two looks. A service looks as often.
const overridesEvery = time.Second

// take takes in what a look brought, and reports whether the overrides are others than before.
func (o *overrides) take(look source.OverridesLook) (changed bool) {
	o.fetching, o.looked, o.problem = false, true, look.Err
	if look.Err != nil {
		return false
	}
	changed = o.list != look.List
	o.list = look.List
	return changed
}

// blockSign marks what is under a block.
const blockSign = "⊘"

// overrideSign marks rows under an override.
func overrideSign(o *store.Override) string {
	switch {
	case source.IsBlock(o):
		return blockSign
	case o.Effect == store.OverrideExempt:
		return "∞"
	}
	return "±"
}
