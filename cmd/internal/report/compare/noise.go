package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/limitctl/limitctl/cmd/internal/report"
)

// noiseKind is what a figure depends on besides the limiter.
type noiseKind int

const (
	// exact: on nothing. One more is a regression.
	exact noiseKind = iota
	// byTime: on how long answers took, as the parts of a run tell.
	byTime
	// byMachine: on what else the machine did.
	byMachine
	// byPauses: on what else the machine did, as the rates of the parts of a run tell. One late last answer makes a run longer.
	byPauses
	// bySharing: on how many callers waited together and shared an exchange with the server, which
	// depends on what else the machine did.
	bySharing
)

// measured is the figure of one base run or of the new one.
type measured struct {
	run   *report.Run
	value float64
}

// certain reports whether a figure changed by more than noise explains: after is further
// from the base runs than margins allow, and near is the base run that is next to it.
//
// Two runs of a load differ by what else the machine does, in two ways. Within a run it
// comes and goes. So the runs are cut into parts, and all parts of the new run have to be
// on the same side of those of the base. And it differs from run to run, which only several
// base runs tell: the new run has to be further from them than they are from one another.
// What several base runs tell is better, so a part in ten may then be on the other side.
func (c *comparedFigure) certain(bases []measured, near float64, after measured) bool {
	if c.noise == exact {
		return true
	}
	least := slices.MinFunc(bases, byValue).value
	most := slices.MaxFunc(bases, byValue).value
	if len(bases) > 1 && least > 0 && after.value > 0 && math.Abs(math.Log(after.value/near)) <= math.Log(most/least) {
		return false
	}
	if c.noise == bySharing && c.isShared(bases, near, after) {
		return false
	}
	outliers := 0.0
	if len(bases) > 1 {
		outliers = 0.1
	}
	for _, base := range bases {
		if !c.outsideChance(base.run, after.run) || !c.apart(base, after, outliers) {
			return false
		}
	}
	return true
}

// isShared reports whether the way in which callers shared exchanges, or what happens once in a run, can explain that a
// figure changed. Several base runs tell by how much the sharing differs. After one of them all that is known is that
// no figure grows by a greater factor than the round trips, and these have no bound; a factor of two is taken for chance.
func (c *comparedFigure) isShared(bases []measured, near float64, after measured) bool {
	decided := after.run.Allowed + after.run.Denied
	for _, base := range bases {
		decided = min(decided, base.run.Allowed+base.run.Denied)
	}
	if math.Abs(after.value-near) <= c.once/float64(max(decided, 1)) {
		return true
	}
	if len(bases) > 1 || near <= 0 || after.value <= 0 {
		return false
	}
	was, known := bases[0].run.Value("round_trips")
	is, knownToo := after.run.Value("round_trips")
	const alone = 0.99 // from there on nobody shares
	if !known || !knownToo || was <= 0 || is <= 0 || was > alone && is > alone {
		return false
	}
	band := math.Log(2)
	if c.metric != "round_trips" {
		band = math.Abs(math.Log(is/was)) + math.Log(1+DefaultMargins().Cost)
	}
	return math.Abs(math.Log(after.value/near)) <= band
}

// undisturbed are the runs whose servers worked for nobody else.
func undisturbed(runs []measured) []measured {
	return slices.DeleteFunc(slices.Clone(runs), func(m measured) bool { return m.run.Cost != nil && m.run.Cost.Others > 0 })
}

func byValue(a, b measured) int { return cmp.Compare(a.value, b.value) }

// apart reports whether the parts of two runs lie apart, on the side that the figures do.
// Where the parts are not known, it is taken that they do.
func (c *comparedFigure) apart(base, after measured, outliers float64) bool {
	if c.noise != byTime && c.noise != byPauses {
		return true
	}
	before, now := c.parts(base.run), c.parts(after.run)
	if len(before) == 0 || len(now) == 0 {
		return true
	}
	beforeLow, beforeHigh := inner(before, outliers)
	nowLow, nowHigh := inner(now, outliers)
	if c.quantile == 0 && c.histogram == nil { // the parts do not tell the figure itself, only how much such figures differ
		spread := math.Max(beforeHigh/beforeLow, nowHigh/nowLow)
		return after.value > base.value*spread || after.value < base.value/spread
	}
	if after.value > base.value {
		return nowLow > beforeHigh
	}
	return nowHigh < beforeLow
}

// inner is the least and the greatest value but for some outliers on either side.
func inner(values []float64, outliers float64) (low, high float64) {
	left := int(math.Round(outliers * float64(len(values)-1)))
	return values[left], values[len(values)-1-left]
}

// Runs are cut into as many parts; into fewer than leastParts they tell nothing.
const (
	partsOfRun = 10
	leastParts = 4
)

// parts is what the figure was in each part of the run's time, in order, as far as the
// timeline tells: of high quantiles the worst in the part, of others the middle one. It is
// empty if the timeline is too short.
func (c *comparedFigure) parts(r *report.Run) []float64 {
	if c.noise == byPauses {
		return rates(r)
	}
	var answered []report.Interval
	for _, i := range r.Timeline {
		if i.P50 > 0 {
			answered = append(answered, i)
		}
	}
	n := min(partsOfRun, len(answered))
	if n < leastParts {
		return nil
	}
	var values []float64
	for part := range n {
		var in []float64
		for _, i := range answered[part*len(answered)/n : (part+1)*len(answered)/n] {
			switch {
			case c.quantile > 0.99:
				in = append(in, float64(i.Max))
			case c.quantile >= 0.9:
				in = append(in, float64(i.P99))
			default:
				in = append(in, float64(i.P50))
			}
		}
		slices.Sort(in)
		value := in[len(in)/2]
		if c.quantile >= 0.99 {
			value = in[len(in)-1]
		}
		values = append(values, value)
	}
	slices.Sort(values)
	return values
}

// rates is how many requests were answered in an interval of each part of the run's time, in order of size. A part without an answer
// counts as one with one, so that rates can be divided.
func rates(r *report.Run) (all []float64) {
	n := min(partsOfRun, len(r.Timeline))
	if n < leastParts {
		return nil
	}
	for part := range n {
		from, to := part*len(r.Timeline)/n, (part+1)*len(r.Timeline)/n
		answered := int64(0)
		for _, i := range r.Timeline[from:to] {
			answered += i.Allowed + i.Denied + i.Errors
		}
		all = append(all, math.Max(1, float64(answered))/float64(to-from))
	}
	slices.Sort(all)
	return all
}

// busier says by how much the machine of one run was busier than that of the others, as
// the generator's own lag tells, which the store has no part in: 1 is not at all. Beyond
// [tooBusy] its times tell of the machine.
func busier(bases []*report.Run, is *report.Run) (was, now int64, tooBusy bool) {
	if is.Lag == nil {
		return 0, 0, false
	}
	least, most := int64(math.MaxInt64), int64(0)
	for _, base := range bases {
		if base.Lag == nil {
			return 0, 0, false
		}
		least, most = min(least, base.Lag.P90), max(most, base.Lag.P90)
	}
	const factor, tiny = 2, 20 // µs, which a timer may be off by
	now = is.Lag.P90
	switch {
	case now > factor*most && now-most > tiny:
		return most, now, true
	case least > factor*now && least-now > tiny:
		return least, now, true
	}
	return most, now, false
}
