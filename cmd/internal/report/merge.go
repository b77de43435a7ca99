package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Named is a document and the file that it is from.
type Named struct {
	Name string
	*Document
}

// The most of each that a document lists.
const (
	mostGroups     = 200
	mostDeniedKeys = 10
	mostErrorTexts = 5
)

// Merge makes one load test of those that several machines ran at the same time,
// each with keys of its own. Histograms are merged, so the quantiles are those of
// all requests together. The thresholds that any of them had are held against the
// result. What cannot be merged is a [limiter.ErrInvalid].
func Merge(all []Named) (*Document, error) {
	first := all[0]
	merged := New(first.Kind)
	for _, d := range all {
		if err := mergeable(first, d); err != nil {
			return nil, err
		}
		merged.Interrupted = merged.Interrupted || d.Interrupted
	}
	for i := range first.Runs {
		parts := make([]part, len(all))
		for j, d := range all {
			parts[j] = part{d.Name, &d.Runs[i]}
		}
		run, err := mergeRuns(parts)
		if err != nil {
			return nil, err
		}
		merged.Runs = append(merged.Runs, *run)
	}
	return merged, merged.holdAgain(all)
}

// holdAgain evaluates the thresholds of all documents against the merged one. One
// that is about what could not be merged becomes a warning.
func (d *Document) holdAgain(all []Named) error {
	var expressions []Expression
	seen := map[string]bool{}
	for _, from := range all {
		for _, t := range from.Thresholds {
			if seen[t.Expression] {
				continue
			}
			seen[t.Expression] = true
			e, err := ParseThreshold(t.Expression)
			if err != nil {
				return limiter.Invalidf("%s: %v", from.Name, err)
			}
			if i := slices.IndexFunc(d.Runs, func(r Run) bool { return e.metric.kind != duration && e.metric.of(&r.Figures) == nil }); i >= 0 {
				d.Runs[i].Warnings = append(d.Runs[i].Warnings, fmt.Sprintf("threshold %q is not judged: it is about a figure that could not be merged", e))
				continue
			}
			expressions = append(expressions, e)
		}
	}
	_, err := d.Evaluate(expressions)
	return err
}

func mergeable(a, b Named) error {
	switch {
	case b.Kind != LoadTest:
		return limiter.Invalidf("%s is a simulation; only load tests are merged", b.Name)
	case len(a.Runs) != len(b.Runs):
		return limiter.Invalidf("%s has %s and %s has %s; merge reports of the same test", a.Name, plural(int64(len(a.Runs)), "run"), b.Name, plural(int64(len(b.Runs)), "run"))
	}
	for i := range a.Runs {
		if ours, theirs := a.Runs[i].Title(), b.Runs[i].Title(); ours != theirs {
			return limiter.Invalidf("run %d of %s is of %q, and of %s of %q; merge reports of the same test", i+1, a.Name, ours, b.Name, theirs)
		}
		if len(a.Runs[i].Limits) != len(b.Runs[i].Limits) {
			return limiter.Invalidf("run %d has %d limits in %s and %d in %s; merge reports of the same test", i+1, len(a.Runs[i].Limits), a.Name, len(b.Runs[i].Limits), b.Name)
		}
	}
	return nil
}

// part is what one machine did of a run.
type part struct {
	file string
	*Run
}

// counted is when the warm-up was over.
func (p part) counted() time.Time { return p.StartedAt.Add(milliseconds(p.WarmupMS)) }

func (p part) end() time.Time { return p.StartedAt.Add(milliseconds(p.DurationMS)) }

func mergeRuns(parts []part) (*Run, error) {
	first := parts[0]
	run := &Run{
		Algorithm: first.Algorithm, Limit: first.Limit, Policy: first.Policy, Implementation: first.Implementation,
		Scenario: first.Scenario, StartedAt: first.StartedAt, Figures: Figures{Limits: slices.Clone(first.Limits)},
	}
	counted, end := first.counted(), first.end()
	var loads, stores []string
	for _, p := range parts {
		if p.StartedAt.Before(run.StartedAt) {
			run.StartedAt = p.StartedAt
		}
		if p.counted().Before(counted) {
			counted = p.counted()
		}
		if p.end().After(end) {
			end = p.end()
		}
		loads, stores = append(loads, p.Load), append(stores, p.Store)
		run.Workers += p.Workers
		run.Rate += p.Rate
		run.Requests += p.Requests
		run.Allowed += p.Allowed
		run.Denied += p.Denied
		run.Errors += p.Errors
		run.Unknown += p.Unknown
		run.Dropped += p.Dropped
		run.Late += p.Late
		run.LateAfterMS = max(run.LateAfterMS, p.LateAfterMS)
		run.Keys += p.Keys
		run.KeysDenied += p.KeysDenied
		run.GeneratorLimited = run.GeneratorLimited || p.GeneratorLimited
		for _, warning := range p.Warnings {
			run.Warnings = append(run.Warnings, p.file+": "+warning)
		}
	}
	run.Load = fmt.Sprintf("%d machines: %s", len(parts), joined(loads))
	run.Store = joined(stores)
	run.DurationMS = end.Sub(run.StartedAt).Milliseconds()
	run.WarmupMS = counted.Sub(run.StartedAt).Milliseconds()
	if run.countedMS() > 0 {
		run.ThroughputPerS = 1000 * float64(run.Requests-run.Errors) / float64(run.countedMS())
	}
	run.Warnings = append(run.Warnings, apart(parts)...)
	if err := run.mergeTimes(parts); err != nil {
		return nil, err
	}
	audits := make([]*Audit, len(parts))
	for i := range parts {
		audits[i] = &parts[i].Audit
	}
	run.Audit = mergeAudits(audits)
	for i := range run.Limits {
		run.Limits[i].Denied = 0
		for j := range parts {
			audits[j] = &parts[j].Limits[i].Audit
			run.Limits[i].Denied += parts[j].Limits[i].Denied
		}
		run.Limits[i].Audit = mergeAudits(audits)
	}
	run.mergeCost(parts)
	run.mergeTimelines(parts)
	run.mergeKeys(parts)
	return run, nil
}

// joined lists texts, each once.
func joined(texts []string) string {
	var once []string
	for _, text := range texts {
		if !slices.Contains(once, text) {
			once = append(once, text)
		}
	}
	return strings.Join(once, " and ")
}

// apart warns of machines that were not at work at the same time, by their clocks.
func apart(parts []part) []string {
	var warnings []string
	for i, a := range parts {
		for _, b := range parts[i+1:] {
			if b.StartedAt.Before(a.StartedAt) {
				a, b = b, a
			}
			if !b.StartedAt.Before(a.end()) {
				warnings = append(warnings, fmt.Sprintf("%s began %s after %s had ended: they did not load the store together", b.file, b.StartedAt.Sub(a.end()).Round(time.Millisecond), a.file))
			}
		}
	}
	return warnings
}

// mergeTimes merges the histograms, and reckons the quantiles of all.
func (r *Run) mergeTimes(parts []part) error {
	r.Histograms = &Histograms{}
	for _, times := range []struct {
		histogram func(*Histograms) **hdrhistogram.Histogram
		quantiles func(*Run) **Quantiles
	}{
		{func(h *Histograms) **hdrhistogram.Histogram { return &h.Latency }, func(r *Run) **Quantiles { return &r.Latency }},
		{func(h *Histograms) **hdrhistogram.Histogram { return &h.Service }, func(r *Run) **Quantiles { return &r.Service }},
		{func(h *Histograms) **hdrhistogram.Histogram { return &h.Lag }, func(r *Run) **Quantiles { return &r.Lag }},
	} {
		var merged *hdrhistogram.Histogram
		for _, p := range parts {
			if *times.quantiles(p.Run) == nil {
				continue
			}
			if p.Histograms == nil || *times.histogram(p.Histograms) == nil {
				return limiter.Invalidf("%s has no histograms, without which quantiles cannot be merged; give the report that loadtest wrote with --save", p.file)
			}
			switch h := *times.histogram(p.Histograms); {
			case merged == nil:
				merged = h.Clone()
			case merged.Merge(h) > 0:
				return limiter.Invalidf("%s has times that are beyond those of %s; merge reports of one version of limitctl", p.file, parts[0].file)
			}
		}
		if merged != nil {
			*times.histogram(r.Histograms), *times.quantiles(r) = merged, QuantilesOf(merged)
		}
	}
	return nil
}

// mergeAudits is the worst of what was seen of any key, and the sum of the units.
func mergeAudits(all []*Audit) Audit {
	merged := Audit{KeySums: &KeySums{}}
	for _, a := range all {
		merged.WorstWindowRatio = math.Max(merged.WorstWindowRatio, a.WorstWindowRatio)
		merged.WorstWindowUnits = max(merged.WorstWindowUnits, a.WorstWindowUnits)
		merged.OverAdmitted += a.OverAdmitted
		merged.UnderAdmitted += a.UnderAdmitted
		merged.LongestDenialRun = max(merged.LongestDenialRun, a.LongestDenialRun)
		if a.KeySums == nil || merged.KeySums == nil {
			merged.KeySums = nil
			continue
		}
		merged.KeySums.Keys += a.KeySums.Keys
		merged.KeySums.Sum += a.KeySums.Sum
		merged.KeySums.SumOfSquares += a.KeySums.SumOfSquares
	}
	if merged.FairnessUnknown = merged.KeySums == nil; !merged.FairnessUnknown {
		merged.Fairness = merged.KeySums.Fairness()
	}
	return merged
}

// mergeCost keeps what each machine knows of itself and of its keys. What a server
// counts is of all machines, so that none of them knows what its own part was.
func (r *Run) mergeCost(parts []part) {
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
		for _, p := range parts {
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
	for _, p := range parts {
		left = left || p.Cost != nil && (p.Cost.ServerCPU != nil || p.Cost.Commands != nil || p.Cost.NetworkIn != nil || p.Cost.NetworkOut != nil)
	}
	if left {
		r.Warnings = append(r.Warnings, "the server's own cost is left out: what it counts is of all machines, and none of them knows its part")
	}
	if cost != (Cost{}) {
		r.Cost = &cost
	}
}

// mergeTimelines adds up what happened at the same time. Of latencies in an
// interval the worst is kept, since only whole runs have histograms.
func (r *Run) mergeTimelines(parts []part) {
	for _, p := range parts {
		r.IntervalMS = max(r.IntervalMS, p.IntervalMS)
	}
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
			sum.Allowed += interval.Allowed
			sum.Denied += interval.Denied
			sum.Errors += interval.Errors
			sum.Dropped += interval.Dropped
			sum.P50, sum.P99, sum.Max = max(sum.P50, interval.P50), max(sum.P99, interval.P99), max(sum.Max, interval.Max)
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
			denied[k.Key] = KeyCount{k.Key, sum.Allowed + k.Allowed, sum.Denied + k.Denied}
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
		last := &heat[len(heat)-1]
		last.Keys += g.Keys
		last.Allowed += g.Allowed
		last.Denied += g.Denied
	}
	r.Heat = heat
}
