package report

import (
	"cmp"
	"slices"
)

// mergeTimelines adds up what happened at the same time. Of latencies in an
// interval the worst is kept, since only whole runs have histograms.
func (r *Run) mergeTimelines(parts []part) {
	if r.IntervalMS == 0 {
		return
	}
	at := map[int64]*Interval{}
	for _, p := range parts {
		shift := p.StartedAt.Sub(r.StartedAt).Milliseconds()
		for _, interval := range p.Timeline {
			offset := (shift + interval.OffsetMS) / r.IntervalMS * r.IntervalMS
			sum := at[offset]
			if sum == nil {
				sum = &Interval{OffsetMS: offset}
				at[offset] = sum
			}
			addUp(sum, &interval)
		}
	}
	for _, interval := range at {
		r.Timeline = append(r.Timeline, *interval)
	}
	slices.SortFunc(r.Timeline, func(a, b Interval) int { return cmp.Compare(a.OffsetMS, b.OffsetMS) })
}

// mergeKeys merges what is listed of keys and of errors.
func (r *Run) mergeKeys(parts []part) {
	denied, errors := map[string]KeyCount{}, map[string]int64{}
	for _, p := range parts {
		r.Heat = append(r.Heat, p.Heat...)
		for _, k := range p.MostDenied {
			sum := denied[k.Key]
			addUp(&k, &sum)
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
	r.MostDenied = r.MostDenied[:min(len(r.MostDenied), mostDeniedKeys)]
	for text, count := range errors {
		r.ErrorTexts = append(r.ErrorTexts, ErrorCount{text, count})
	}
	slices.SortFunc(r.ErrorTexts, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	r.ErrorTexts = r.ErrorTexts[:min(len(r.ErrorTexts), mostErrorTexts)]
	perKey := func(g HeatGroup) float64 { return float64(g.Allowed+g.Denied) / float64(max(g.Keys, 1)) }
	slices.SortStableFunc(r.Heat, func(a, b HeatGroup) int { return cmp.Compare(perKey(b), perKey(a)) })
	together := (len(r.Heat) + mostGroups - 1) / mostGroups
	var heat []HeatGroup
	for i, g := range r.Heat {
		if i%together == 0 {
			heat = append(heat, HeatGroup{})
		}
		addUp(&heat[len(heat)-1], &g)
	}
	r.Heat = heat
}
