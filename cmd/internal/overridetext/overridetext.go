// Package overridetext says for people what an override does, in the same words wherever one
// is shown.
package overridetext

import (
	"fmt"
	"strconv"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Effect is what an override does, in a word or two: "600/1m", "×3", "+500", "block".
func Effect(o *store.Override) string {
	switch o.Effect {
	case store.OverrideLimit:
		return o.Limit.String()
	case store.OverrideTimes:
		return "×" + Factor(o.Thousandths)
	case store.OverrideAdd:
		return fmt.Sprintf("%+d", o.Units)
	default:
		return o.Effect.String()
	}
}

// Factor writes a factor that is given in thousandths, such as "2.5" for 2500.
func Factor(thousandths int64) string {
	return strconv.FormatFloat(float64(thousandths)/1000, 'f', -1, 64)
}
