package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// Title names the run among those of its document: "token-bucket 100/1m".
func (r *Run) Title() string {
	title := strings.TrimSpace(r.Algorithm + " " + r.limit())
	if strings.Contains(r.Limit, " and ") { // each is written with its algorithm
		title = r.Limit
	}
	if r.Policy != "" {
		title = strings.TrimSpace("policy " + r.Policy + ": " + title)
	}
	if r.Implementation == naive {
		title += " (naive)"
	}
	return title
}

// limit is the limit without the algorithm, which it may be written with.
func (r *Run) limit() string { return strings.TrimPrefix(r.Limit, r.Algorithm+":") }

// countedMS is how long the requests were sent that count.
func (f *Figures) countedMS() int64 { return f.DurationMS - f.WarmupMS }

// naive is the implementation that is no script.
const naive = "naive"

// NoStore is the store of a simulation that none decided.
const NoStore = "none"

// where is the store and what was done to it: "for 30s on redis://localhost:6379".
func (r *Run) where(kind Kind) string {
	duration := output.Duration(milliseconds(r.DurationMS))
	if kind == Simulation {
		words := "over " + duration
		if r.Store != NoStore {
			words += ", decided by " + r.Store
		}
		return words
	}
	if r.WarmupMS > 0 {
		duration += ", of which " + output.Duration(milliseconds(r.WarmupMS)) + " to warm up,"
	}
	return "for " + duration + " on " + r.Store
}

// finding is something that the reader is told in words, and how bad it is.
type finding struct {
	style output.Style
	text  string
}

func (f finding) mark() string {
	switch f.style {
	case output.Calm:
		return "✓"
	case output.AtEnd:
		return "✗"
	}
	return "!"
}

// finding says which count keeps a promise.
func (s *Suggestion) finding() finding {
	switch {
	case !s.Kept:
		return finding{output.AtEnd, fmt.Sprintf("%s of %s: no count keeps it; at %s it is %s", s.Promise, s.Limit, output.Thousands(s.Count), s.Actual)}
	case s.Below == "":
		return finding{output.Calm, fmt.Sprintf("%s needs %s: %s", s.Promise, s.Limit, s.Actual)}
	}
	return finding{output.Calm, fmt.Sprintf("%s needs %s: %s, and with one less %s", s.Promise, s.Limit, s.Actual, s.Below)}
}

// verdict says in words how right the decisions were.
func (r *Run) verdict() finding {
	a := r.Audit
	let := fmt.Sprintf("let %s the limit through in one period", ratio(a.WorstWindowRatio))
	under := ""
	if a.UnderAdmitted > 0 {
		under = fmt.Sprintf("; denied %s that fitted", units(a.UnderAdmitted))
	}
	switch {
	case r.Requests == 0:
		return finding{output.Near, "nothing was sent, so nothing is known"}
	case a.OverAdmitted > 0:
		return finding{output.AtEnd, fmt.Sprintf("admitted %s too many; %s", units(a.OverAdmitted), let) + under}
	case a.UnderAdmitted > 0 && a.WorstWindowRatio <= 1:
		return finding{output.AtEnd, "never more than the limit" + under}
	case a.UnderAdmitted > 0:
		return finding{output.AtEnd, let + under}
	case a.WorstWindowRatio > 1:
		return finding{output.Near, let + ", as its algorithm does"}
	}
	return finding{output.Calm, "never more than the limit"}
}

// alarms are what a reader must know before believing the figures, the worst first.
func (r *Run) alarms() []finding {
	var all []finding
	add := func(style output.Style, format string, args ...any) {
		all = append(all, finding{style, fmt.Sprintf(format, args...)})
	}
	if r.GeneratorLimited {
		lag := ""
		if r.Lag != nil {
			lag = fmt.Sprintf(", which was %s late at p99", micros(r.Lag.P99))
		}
		add(output.AtEnd, "the load generator was the limit, not the store: the figures are about the machine it ran on%s", lag)
	}
	if r.Dropped > 0 {
		add(output.AtEnd, "%s of %s arrivals were dropped (%s): they could not be sent in time", output.Thousands(r.Dropped), output.Thousands(r.Requests+r.Dropped), share(r.Dropped, r.Requests+r.Dropped))
	}
	if r.Errors > 0 {
		unknown := ""
		if r.Unknown > 0 {
			unknown = fmt.Sprintf("; %s of them may have been charged nevertheless", output.Thousands(r.Unknown))
		}
		add(output.AtEnd, "%s ended in an error (%s)%s", requests(r.Errors), share(r.Errors, r.Requests), unknown)
		for _, e := range r.ErrorTexts {
			add(output.AtEnd, "%s × %s", output.Thousands(e.Count), e.Text)
		}
	}
	if r.Late > 0 {
		add(output.Near, "%s answered more than %s after being due (%s)", requests(r.Late), output.Duration(milliseconds(r.LateAfterMS)), share(r.Late, r.Requests))
	}
	if r.Neighbours != nil && r.Neighbours.Denied > 0 {
		add(output.Near, "the noisy key was not all that was hurt: %s", r.neighboursInWords())
	}
	for _, warning := range r.Warnings {
		add(output.Near, "%s", warning)
	}
	return all
}

func units(n int64) string    { return plural(n, "unit") }
func requests(n int64) string { return plural(n, "request") }

// plural writes a count with its noun, and thousands apart.
func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return output.Thousands(n) + " " + noun
}

// share writes part of whole as a percentage. It is "0%" only of nothing and "100%"
// only of all.
func share(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	percent := 100 * float64(part) / float64(whole)
	digits := 0
	if percent < 10 || percent > 99 {
		digits = 1
	}
	text := strconv.FormatFloat(percent, 'f', digits, 64)
	switch {
	case part == 0:
		return "0%"
	case part == whole:
		return "100%"
	case text == "0.0":
		return "<0.1%"
	case text == "100.0":
		return ">99.9%"
	}
	return text + "%"
}

// ratio writes a multiple of the limit: "1.97 ×". It is "1.00 ×" only if it is one.
func ratio(f float64) string {
	if 0 < f && f < 0.005 {
		return "<0.01 ×"
	}
	text := ""
	for digits := 2; digits <= 9; digits++ {
		text = strconv.FormatFloat(f, 'f', digits, 64)
		if shown, err := strconv.ParseFloat(text, 64); err != nil || f == 1 || shown != 1 {
			break
		}
	}
	return text + " ×"
}

// micros writes microseconds to three digits, in the unit that suits them:
// "840 µs", "1.24 ms", "12 s".
func micros(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%d µs", us)
	case us < 999_500:
		return decimal(float64(us)/1000) + " ms"
	}
	return decimal(float64(us)/1e6) + " s"
}

// decimal writes a figure to three digits, or all of those before the point.
func decimal(f float64) string {
	switch size := math.Abs(f); {
	case math.IsNaN(f), math.IsInf(f, 0):
		return "-"
	case size >= 99.95:
		return output.Thousands(int64(math.Round(f)))
	case size >= 9.995:
		return output.Decimals(f, 1)
	case size >= 0.0995:
		return output.Decimals(f, 2)
	}
	return output.Decimals(f, 3)
}

// perSecond writes a rate.
func perSecond(f float64) string { return decimal(f) + "/s" }

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// alarms are those of all runs, each with the title of its run; what is so of all of
// several is said once, and of none in particular.
func (d *Document) alarms() (all []finding, titles []string) {
	common := map[string]int{}
	for i := range d.Runs {
		for _, alarm := range d.Runs[i].alarms() {
			common[alarm.text]++
		}
	}
	said := map[string]bool{}
	for i := range d.Runs {
		for _, alarm := range d.Runs[i].alarms() {
			title := d.Runs[i].Title()
			if common[alarm.text] == len(d.Runs) {
				title = ""
			}
			if !said[title+"\x00"+alarm.text] {
				said[title+"\x00"+alarm.text] = true
				all, titles = append(all, alarm), append(titles, title)
			}
		}
	}
	return all, titles
}
