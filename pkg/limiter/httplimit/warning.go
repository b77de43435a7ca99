package httplimit

import (
	"net/http"
	"strconv"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// warningField is X-RateLimit-Warning in the form of [http.Header].
const warningField = "X-Ratelimit-Warning"

// SetWarning sets X-RateLimit-Warning if the decisions on reqs used limits up to the share that is their
// [policy.Limit].Warn, or further. It lists these limits with the per cent that are used, rounded down:
//
//	X-RateLimit-Warning: "daily";used=83
//
// limits are those of the policy, in the order of reqs. names are as in [Headers.Set], which leaves out the same limits. If h
// selects no field, this one is not set either.
func (h Headers) SetWarning(header http.Header, names []string, limits []policy.Limit, reqs []store.Request, decisions []store.Decision) {
	if h == 0 {
		return
	}
	var text []byte
	for i := range min(len(limits), len(decisions)) {
		d := &decisions[i]
		if limits[i].Warn == 0 || !isInTheWay(d) {
			continue
		}
		limit := effective(&reqs[i].Limit, d)
		if capacity := limit.Capacity(); limits[i].Warns(d, capacity) {
			text = appendItem(text, 0, names, reqs, i)
			text = strconv.AppendInt(append(text, ";used="...), d.Used*100/max(1, capacity), 10)
		}
	}
	if len(text) > 0 {
		header[warningField] = []string{string(text)}
	}
}
