package audit

import "github.com/limitctl/limitctl/pkg/limiter/store"

// SetLimits says that the first keys, as many as that, are under a limit, as [Auditor.SetLimit]
// does for one. It takes no more memory than they need.
func (a *Auditor) SetLimits(keys uint32, limit store.Limit) {
	a.SetLimit(keys-1, limit)
	for key := range a.keys[:keys] {
		a.keys[key].limit = a.keys[keys-1].limit
	}
}

// Merge returns what was found in all of several audits, each of other keys.
func Merge(all ...Finding) Finding {
	var sum Finding
	for i := range all {
		f := &all[i]
		sum.Totals.Add(&f.Totals)
		sum.KeysOver += f.KeysOver
		sum.KeysUnder += f.KeysUnder
		sum.PeakRatio = max(sum.PeakRatio, f.PeakRatio)
		sum.Lies.Add(&f.Lies)
		sum.Lied += f.Lied
		sum.Reported += f.Reported
		sum.LongestDenialRun = max(sum.LongestDenialRun, f.LongestDenialRun)
		sum.Charged += f.Charged
		sum.ChargedSquares += f.ChargedSquares
		sum.Keys += f.Keys
		sum.KeysDenied += f.KeysDenied
		sum.Denied += f.Denied
		sum.OutOfOrder += f.OutOfOrder
	}
	sum.Fairness = Fairness(sum.Keys, sum.Charged, sum.ChargedSquares)
	return sum
}

// Add adds others. The first of each field stays the first.
func (l *Lies) Add(others *Lies) {
	for field := range l {
		mine, other := &l[field], others[field]
		if other.Answers == 0 {
			continue
		}
		n := mine.Answers
		if n == 0 || other.At < mine.At {
			*mine = other
		}
		mine.Answers = n + other.Answers
	}
}
