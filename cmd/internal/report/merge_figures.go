package report

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mergeAnswers adds up what the deciders answered.
func (r *Run) mergeAnswers(runs []machineRun) error {
	for _, p := range runs {
		for _, a := range p.ByDecider {
			i := slices.IndexFunc(r.ByDecider, func(b Answers) bool { return a.DecidedBy == b.DecidedBy })
			if i < 0 {
				i = len(r.ByDecider)
				r.ByDecider = append(r.ByDecider, Answers{DecidedBy: a.DecidedBy})
			}
			AddUp(&r.ByDecider[i], &a)
		}
	}
	for i := range r.ByDecider {
		by := r.ByDecider[i].DecidedBy
		merged, err := mergeHistograms(runs, func(p machineRun) (*hdrhistogram.Histogram, bool) {
			has := slices.ContainsFunc(p.ByDecider, func(a Answers) bool { return a.DecidedBy == by && a.Latency != nil })
			if p.Histograms == nil {
				return nil, has
			}
			return p.Histograms.ByDecider[by], has
		})
		if err != nil {
			return err
		}
		if merged != nil {
			r.Histograms.ByDecider[by], r.ByDecider[i].Latency = merged, QuantilesOf(merged)
		}
	}
	slices.SortFunc(r.ByDecider, func(a, b Answers) int { return cmp.Compare(a.DecidedBy, b.DecidedBy) })
	return nil
}

// mergeClocks returns the worst of what several machines found of one clock, each by its own.
func mergeClocks(runs []machineRun) (merged *StoreClock) {
	for _, p := range runs {
		switch {
		case p.Clock == nil:
		case merged == nil:
			first := *p.Clock
			merged = &first
		default:
			AddUp(merged, p.Clock)
		}
	}
	return merged
}

// machineRun is one machine's part of a run, and the file it was read from.
type machineRun struct {
	file string
	*Run
}

// counted is when the warm-up ended.
func (p machineRun) counted() time.Time { return p.StartedAt.Add(FromMS(p.WarmupMS)) }

func (p machineRun) end() time.Time { return p.StartedAt.Add(FromMS(p.DurationMS)) }

// AddUp adds to the numbers of a structure those of another one, each as its field says by the
// tag merge: the sum, the maximum, the one farthest from 0, or whether any is true.
func AddUp[T any](into, from *T) {
	addValues(reflect.ValueOf(into).Elem(), reflect.ValueOf(from).Elem())
}

func addValues(into, from reflect.Value) {
	for i := range into.NumField() {
		field, a, b := into.Type().Field(i), into.Field(i), from.Field(i)
		greater := a.CanInt() && b.Int() > a.Int() || a.CanFloat() && b.Float() > a.Float()
		switch how := field.Tag.Get("merge"); {
		case field.Anonymous:
			addValues(a, b)
		case how == "sum" && a.CanInt():
			a.SetInt(a.Int() + b.Int())
		case how == "sum":
			a.SetFloat(a.Float() + b.Float())
		case how == "max" && greater, how == "any" && b.Bool(), how == "farthest" && math.Abs(b.Float()) > math.Abs(a.Float()):
			a.Set(b)
		}
	}
}

// mergeTimes merges the histograms, and computes the quantiles of all requests.
func (r *Run) mergeTimes(runs []machineRun) error {
	r.Histograms = &Histograms{ByDecider: map[string]*hdrhistogram.Histogram{}}
	for i, into := range r.distributions() {
		merged, err := mergeHistograms(runs, func(p machineRun) (*hdrhistogram.Histogram, bool) {
			own := p.distributions()[i]
			return *own.histogram, *own.quantiles != nil
		})
		if err != nil {
			return err
		}
		*into.histogram, *into.quantiles = merged, QuantilesOf(merged)
	}
	return nil
}

// mergeHistograms merges one histogram of each machine that has such times; nil if no machine
// has.
func mergeHistograms(runs []machineRun, of func(machineRun) (h *hdrhistogram.Histogram, has bool),
) (merged *hdrhistogram.Histogram, err error) {
	for _, p := range runs {
		switch h, has := of(p); {
		case !has:
		case h == nil:
			return nil, store.Invalidf("%s has no histograms, without which quantiles cannot be merged; "+
				"give the report that loadtest wrote with --save", p.file)
		case merged == nil:
			merged = h.Clone()
		case merged.Merge(h) > 0:
			return nil, store.Invalidf("%s has a histogram of another range than %s; merge reports of one version of limitctl",
				p.file, runs[0].file)
		}
	}
	return merged, nil
}

// mergeAudits returns the worst of the ratios and the sum of the units.
func mergeAudits(all []*Audit) Audit {
	merged := Audit{KeySums: &KeySums{}}
	for _, a := range all {
		AddUp(&merged, a)
		merged.Totals.Add(&a.Totals)
		merged.mergeLies(a.Lies)
		if a.LimitReached != nil && (merged.LimitReached == nil || *merged.LimitReached < *a.LimitReached) {
			merged.LimitReached = a.LimitReached
		}
		if a.KeySums == nil || merged.KeySums == nil {
			merged.KeySums = nil
			continue
		}
		AddUp(merged.KeySums, a.KeySums)
	}
	if merged.FairnessUnknown = merged.KeySums == nil; !merged.FairnessUnknown {
		merged.Fairness = merged.KeySums.Fairness()
	}
	return merged
}

// mergeLies adds the lies of another machine, with the evidence of the earliest of each
// field.
func (a *Audit) mergeLies(other *Lies) {
	if other == nil {
		return
	}
	if a.Lies == nil {
		a.Lies = new(Lies)
	}
	a.Lies.Checked += other.Checked
	a.Lies.Wrong += other.Wrong
	for _, lie := range other.Fields {
		i := slices.IndexFunc(a.Lies.Fields, func(l Lie) bool { return l.Field == lie.Field })
		if i < 0 {
			a.Lies.Fields = append(a.Lies.Fields, lie)
			continue
		}
		answers := a.Lies.Fields[i].Answers + lie.Answers
		if lie.At.Before(a.Lies.Fields[i].At) {
			a.Lies.Fields[i] = lie
		}
		a.Lies.Fields[i].Answers = answers
	}
}

// leastReached is LimitReached of the limit reached least, shadows aside; nil if it is not known
// of one of them.
func leastReached(limits []Limit) (least *float64) {
	for i := range limits {
		l := &limits[i]
		switch {
		case l.Shadow:
		case l.LimitReached == nil:
			return nil
		case least == nil || *l.LimitReached < *least:
			least = l.LimitReached
		}
	}
	return least
}

// mergeCost keeps what each machine knows of itself and of its keys. A server counts the
// work of all machines together, so no machine knows its own part.
func (r *Run) mergeCost(runs []machineRun) {
	cost, left := Cost{}, false
	for _, figure := range []struct {
		of     func(*Cost) **float64
		weight func(*Run) int64
	}{
		{func(c *Cost) **float64 { return &c.RoundTrips }, func(r *Run) int64 { return r.Requests }},
		{func(c *Cost) **float64 { return &c.ClientCPU }, func(r *Run) int64 { return r.Requests }},
		{func(c *Cost) **float64 { return &c.BytesPerKey }, func(r *Run) int64 { return r.Keys }},
		{func(c *Cost) **float64 { return &c.BytesPerUnit }, func(r *Run) int64 { return r.Allowed }},
	} {
		sum, weights := 0.0, 0.0
		for _, p := range runs {
			if p.Cost != nil && *figure.of(p.Cost) != nil {
				weight := float64(figure.weight(p.Run))
				sum, weights = sum+weight**(*figure.of(p.Cost)), weights+weight
			}
		}
		if weights > 0 {
			mean := sum / weights
			*figure.of(&cost) = &mean
		}
	}
	for _, p := range runs {
		left = left || p.Cost != nil && (p.Cost.ServerCPU != nil || p.Cost.Commands != nil || p.Cost.NetworkIn != nil ||
			p.Cost.NetworkOut != nil)
	}
	if left {
		r.Warnings = append(r.Warnings, "the server's cost is left out: it counts the work of all machines together")
	}
	if cost != (Cost{}) {
		r.Cost = &cost
	}
}

// mergeTimelines adds up what happened at the same time. Of latencies in an
// interval the worst is kept, since only whole runs have histograms.
func (r *Run) mergeTimelines(runs []machineRun) {
	if r.IntervalMS == 0 {
		return
	}
	at := map[int64]*Interval{}
	for _, p := range runs {
		shift := p.StartedAt.Sub(r.StartedAt).Milliseconds()
		for _, interval := range p.Timeline {
			offset := (shift + interval.OffsetMS) / r.IntervalMS * r.IntervalMS
			sum := at[offset]
			if sum == nil {
				sum = &Interval{OffsetMS: offset}
				at[offset] = sum
			}
			AddUp(sum, &interval)
		}
	}
	for _, interval := range at {
		r.Timeline = append(r.Timeline, *interval)
	}
	slices.SortFunc(r.Timeline, func(a, b Interval) int { return cmp.Compare(a.OffsetMS, b.OffsetMS) })
}

// mergeKeys merges what is listed of keys and of errors.
func (r *Run) mergeKeys(runs []machineRun) {
	denied, errors := map[string]KeyCount{}, map[string]int64{}
	for _, p := range runs {
		r.Heat = append(r.Heat, p.Heat...)
		for _, k := range p.MostDenied {
			sum := denied[k.Key]
			AddUp(&k, &sum)
			denied[k.Key] = k
		}
		for _, e := range p.ErrorTexts {
			errors[e.Text] += e.Count
		}
	}
	for _, k := range denied {
		r.MostDenied = append(r.MostDenied, k)
	}
	slices.SortFunc(r.MostDenied, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Key, b.Key))
	})
	r.MostDenied = r.MostDenied[:min(len(r.MostDenied), MostDeniedKeys)]
	r.ErrorTexts = Commonest(errors)
	perKey := func(g HeatGroup) float64 { return float64(g.Allowed+g.Denied) / float64(max(g.Keys, 1)) }
	slices.SortStableFunc(r.Heat, func(a, b HeatGroup) int { return cmp.Compare(perKey(b), perKey(a)) })
	together := (len(r.Heat) + MostGroups - 1) / MostGroups
	var heat []HeatGroup
	for i, g := range r.Heat {
		if i%together == 0 {
			heat = append(heat, HeatGroup{})
		}
		AddUp(&heat[len(heat)-1], &g)
	}
	r.Heat = heat
}

// Commonest returns the errors that there were most often.
func Commonest(texts map[string]int64) (all []ErrorCount) {
	for text, count := range texts {
		all = append(all, ErrorCount{text, count})
	}
	slices.SortFunc(all, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return all[:min(len(all), mostErrorTexts)]
}
