package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Bounds of the numbers in a file, so that no computation with them overflows.
const (
	mostOfAnything = 1_000_000_000_000_000
	mostMS         = 4_000_000_000_000 // a century, and it fits a time.Duration
)

// Bounds of the lists of a run.
const (
	mostLimits = 64
	mostEdges  = 1000
	mostListed = 1000
)

// Limits are those of a run.
type Limits []Limit

// UnmarshalJSON refuses more limits than any run has before there is memory taken for them.
func (l *Limits) UnmarshalJSON(data []byte) error {
	if !isList(data) { // null
		return json.Unmarshal(data, (*[]Limit)(l))
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for *l = (Limits{}); decoder.More(); {
		if len(*l) == mostLimits {
			return errTooMuch
		}
		var limit Limit
		if err := decoder.Decode(&limit); err != nil {
			return err
		}
		*l = append(*l, limit)
	}
	return nil
}

// errTooMuch is about lists of a run that are longer than any.
var errTooMuch = errors.New("it holds more than any run")

// check reports what is impossible in a run that was read from a file.
func (r *Run) check() error {
	if max(len(r.Heat), len(r.MostDenied), len(r.ErrorTexts), len(r.Warnings)) > mostListed ||
		len(r.ByDecider) > mostDeciders || len(r.EdgesMS) > mostEdges {
		return errTooMuch
	}
	if err := r.Shared.check(); err != nil {
		return err
	}
	counts := []int64{
		r.Requests, r.Allowed, r.Denied, r.Local, r.Unguarded, r.Errors, r.Unknown, r.Dropped, r.Late,
		r.Keys, r.KeysDenied, int64(r.Workers), r.Disagreements,
	}
	times := append([]int64{r.LateAfterMS, r.DurationMS, r.WarmupMS, r.IntervalMS}, r.EdgesMS...)
	figures := []float64{r.Rate, r.ThroughputPerS}
	if r.Neighbours != nil {
		counts = append(counts, r.Neighbours.Allowed, r.Neighbours.Denied)
	}
	quantiles := []*Quantiles{r.Latency, r.Service, r.ErrorLatency, r.Lag}
	for _, a := range r.ByDecider {
		counts, quantiles = append(counts, a.Allowed, a.Denied), append(quantiles, a.Latency)
	}
	for _, q := range quantiles {
		if q != nil {
			counts = append(counts, q.P50, q.P90, q.P95, q.P99, q.P999, q.P9999, q.Max, q.Mean)
		}
	}
	audits := []Audit{r.Audit}
	for _, l := range r.Limits {
		audits, counts = append(audits, l.Audit), append(counts, l.Denied)
	}
	for _, a := range audits {
		counts = append(counts, a.WorstWindowUnits, a.OverAdmitted, a.UnderAdmitted, a.LeastOverAdmitted, a.LeastUnderAdmitted,
			a.KeysOver, a.KeysUnder, a.Excused, a.LongestDenialRun)
		figures = append(figures, a.WorstWindowRatio, a.Fairness)
		if a.LimitReached != nil {
			figures = append(figures, *a.LimitReached)
		}
		seen, phase := a.Sight.figures()
		counts, figures = append(counts, seen...), append(figures, phase...)
		if a.Lies != nil {
			if len(a.Lies.Fields) > mostListed {
				return errTooMuch
			}
			counts = append(counts, a.Lies.Checked, a.Lies.Wrong)
			for _, lie := range a.Lies.Fields {
				counts = append(counts, lie.Answers)
			}
		}
		if a.KeySums != nil {
			counts = append(counts, a.KeySums.Keys)
			if s := a.KeySums; s.Sum < 0 || s.Sum > mostOfAnything || s.SumOfSquares < 0 || s.SumOfSquares > mostOfAnything*mostOfAnything {
				return fmt.Errorf("%v is out of range for a sum of units, or %v for one of their squares", s.Sum, s.SumOfSquares)
			}
		}
	}
	if r.Clock != nil {
		ofClock, figuresOfClock := r.Clock.figures()
		counts, figures = append(counts, ofClock...), append(figures, figuresOfClock...)
	}
	if w := r.Wrapped; w != nil {
		counts = append(counts, int64(w.Replicas), w.StoreCalls, w.HeldUnits, w.ByClockUnits, w.AllowedBesides, w.DeniedBesides)
		figures = append(figures, w.CallsPerDecision, w.ByClockRatio)
	}
	if r.Cost != nil {
		for _, cost := range costs {
			if figure := cost.of(r.Cost); figure != nil {
				figures = append(figures, *figure)
			}
		}
	}
	for i, t := range r.Timeline {
		counts = append(counts, t.Allowed, t.Denied, t.Local, t.Unguarded, t.Errors, t.Dropped, t.P50, t.P99, t.Max)
		times = append(times, t.OffsetMS)
		if r.IntervalMS <= 0 || i > 0 && t.OffsetMS <= r.Timeline[i-1].OffsetMS {
			return errors.New("its timeline is not in order of time")
		}
	}
	for _, g := range r.Heat {
		counts = append(counts, g.Keys, g.Allowed, g.Denied)
	}
	for _, k := range r.MostDenied {
		counts = append(counts, k.Allowed, k.Denied)
	}
	for _, e := range r.ErrorTexts {
		counts = append(counts, e.Count)
	}
	for _, n := range counts {
		if n < 0 || n > mostOfAnything {
			return fmt.Errorf("%d is out of range for a count or a time", n)
		}
	}
	for _, ms := range times {
		if ms < 0 || ms > mostMS {
			return fmt.Errorf("%d ms is out of range for a time", ms)
		}
	}
	for _, f := range figures {
		if f < 0 || f > mostOfAnything {
			return fmt.Errorf("%v is out of range", f)
		}
	}
	if answers := r.Allowed + r.Denied + r.Local + r.Unguarded + r.Errors; answers > r.Requests {
		return fmt.Errorf("%d requests had %d answers", r.Requests, answers)
	}
	if r.KeysDenied > r.Keys {
		return fmt.Errorf("of %d keys %d were denied", r.Keys, r.KeysDenied)
	}
	return nil
}
