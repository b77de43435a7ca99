package foreign

import (
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ParseLimit reads what an operator says of a limit whose keys do not tell it: the form that
// [store.ParseLimit] reads, such as "10/1m,burst=20", or a count without a period, such as
// "10", for keys that tell the period. Without an algorithm it is that of the layout, and
// Algorithm is zero. The error is a [store.ErrInvalid].
func ParseLimit(text string) (store.Limit, error) {
	if strings.Contains(text, "/") {
		return store.ParseLimit(text)
	}
	amount, options, has := strings.Cut(text, ",")
	whole := amount + "/1s"
	if has {
		whole += "," + options
	}
	limit, err := store.ParseLimit(whole)
	if err != nil {
		return store.Limit{}, store.Invalidf("limit %q is neither COUNT/PERIOD, such as 10/1m, nor a COUNT, such as 10", text)
	}
	limit.Period = 0
	return limit, nil
}

// counted returns a limit whose period is known, with the count that an operator says: of limits
// of that period, or of any.
func counted(limit, said store.Limit) store.Limit {
	if said.Period == 0 || said.Period == limit.Period {
		limit.Count, limit.Burst = said.Count, said.Count
	}
	return limit
}
