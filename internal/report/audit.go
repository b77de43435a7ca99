package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Add adds what the audit of a limit found: the worst of the ratios and the sum of the units. name
// names a key by its index.
func (a *Audit) Add(f *audit.Finding, name func(key uint32) string) {
	a.Totals.Add(&f.Totals)
	a.KeysOver += f.KeysOver
	a.UnderIfFree += f.UnderIfFree
	a.KeysUnder += f.KeysUnder
	if a.LimitReached == nil || f.PeakRatio < *a.LimitReached {
		a.LimitReached = &f.PeakRatio
	}
	a.addLies(f, name)
	a.LongestDenialRun = max(a.LongestDenialRun, f.LongestDenialRun)
	a.Fairness = min(a.Fairness, f.Fairness)
	a.Admitted = max(a.Admitted, f.Charged)
}

// addLies adds the lies about a limit. Of a field about which answers lied under an earlier
// limit, too, that limit's evidence stays.
func (a *Audit) addLies(f *audit.Finding, name func(key uint32) string) {
	if f.Reported == 0 {
		return
	}
	if a.Lies == nil {
		a.Lies = new(Lies)
	}
	a.Lies.Checked += f.Reported
	a.Lies.Wrong += f.Lied
	for field := range f.Lies {
		lie := &f.Lies[field]
		if lie.Answers == 0 {
			continue
		}
		is := audit.Field(field)
		if known := slices.IndexFunc(a.Lies.Fields, func(l Lie) bool { return l.Field == is.String() }); known >= 0 {
			a.Lies.Fields[known].Answers += lie.Answers
			continue
		}
		a.Lies.Fields = append(a.Lies.Fields, Lie{
			Field: is.String(), Answers: lie.Answers, At: lie.At.Time(), Key: name(lie.Key),
			Reported: lieValue(is, lie.Reported, lie.Reported), True: lieValue(is, lie.True, lie.TrueMost),
		})
	}
}

// lieValue writes a value of a field, which is a range if it is not known exactly.
func lieValue(field audit.Field, least, most int64) string {
	write := func(n int64) string {
		if field.IsTime() {
			return time.Duration(n).String()
		}
		return fmt.Sprint(n)
	}
	if least == most {
		return write(least)
	}
	return write(least) + " to " + write(most)
}
