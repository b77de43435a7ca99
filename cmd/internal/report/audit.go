package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Fairness is Jain's index, 1 if nothing was admitted at all.
func (k KeySums) Fairness() float64 { return audit.Fairness(k.Keys, k.Sum, k.SumOfSquares) }

// Add adds what the audit of a limit found: the worst of the ratios and the sum of the units. name
// names a key by its index.
func (a *Audit) Add(f *audit.Finding, name func(key uint32) string) {
	a.Totals.Add(&f.Totals)
	a.KeysOver += f.KeysOver
	a.KeysUnder += f.KeysUnder
	if a.LimitReached == nil || f.PeakRatio < *a.LimitReached {
		a.LimitReached = &f.PeakRatio
	}
	a.addLies(f, name)
	a.Excused += f.Excused
	a.LongestDenialRun = max(a.LongestDenialRun, f.LongestDenialRun)
	if a.KeySums == nil || f.Fairness < a.Fairness {
		a.Fairness = f.Fairness
		a.KeySums = &KeySums{Keys: f.Keys, Sum: f.Charged, SumOfSquares: f.ChargedSquares}
	}
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

// Alone keeps of a run's audit what one of several machines can know of keys that all of them
// use: what it was admitted beyond the limit is too much whatever the others were admitted. What
// it was denied, and what answers reported, depends on the others.
func (f *Figures) Alone() {
	f.Audit.alone()
	for i := range f.Limits {
		f.Limits[i].Audit.alone()
	}
}

func (a *Audit) alone() {
	a.UnderAdmitted, a.LeastUnder, a.KeysUnder, a.Excused, a.Lies, a.LimitReached = 0, 0, 0, 0, nil, nil
}

// ByClock sets the worst window to that of an audit by the clock.
func (w *Wrapped) ByClock(a Audit) {
	w.ByClockRatio, w.ByClockUnits = a.WorstRatio, a.WorstUnits
}
