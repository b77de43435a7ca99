// Package overridetext says for people what an override does, in the same words wherever one
// is shown.
package overridetext

import (
	"fmt"
	"strconv"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Effect is what an override does, in a word or two: "600/1m", "×3", "+500", "block".
func Effect(o *limiter.Override) string {
	switch o.Effect {
	case limiter.OverrideLimit:
		return o.Limit.String()
	case limiter.OverrideTimes:
		return "×" + Factor(o.Thousandths)
	case limiter.OverrideAdd:
		return fmt.Sprintf("%+d", o.Units)
	default:
		return o.Effect.String()
	}
}

// Factor writes a factor that is given in thousandths, such as "2.5" for 2500.
func Factor(thousandths int64) string {
	return strconv.FormatFloat(float64(thousandths)/1000, 'f', -1, 64)
}
