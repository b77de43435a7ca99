package show

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
)

// judge answers the three questions: right, fast, cost.
func (p *page) judge(d *report.Document, titles []string) {
	right, fast, cost := card{Question: "Is it right?"}, card{Question: "Is it fast?"}, card{Question: "What does it cost?"}
	if p.Simulation {
		fast.Question = "Who is hurt?"
	}
	alarms, about := alarmsOf(d)
	for i, alarm := range alarms {
		run := ""
		if p.Several {
			run = Name(about[i])
		}
		p.Alarms = append(p.Alarms, alarm.onPage(run))
	}
	for i := range d.Suggestions {
		p.Suggestions = append(p.Suggestions, findingOf(&d.Suggestions[i]).onPage(""))
	}
	for i := range d.Runs {
		r := &d.Runs[i]
		run := ""
		if p.Several {
			run = titles[i]
		}
		answer := func(f finding, figure, small string) cardAnswer {
			return cardAnswer{f.onPage(run), runKey(i), figure, small}
		}
		if r.Requests == 0 {
			right.Answers = append(right.Answers, answer(verdictOf(r), "-", ""))
		} else {
			right.Answers = append(right.Answers, answer(verdictOf(r), output.Ratio(r.Audit.WorstRatio), auditInWords(r)))
		}
		switch {
		case p.Simulation:
			fast.Answers = append(fast.Answers, answer(finding{text: fmt.Sprintf("of %s keys denied at least once",
				output.Thousands(r.Keys))},
				output.Thousands(r.KeysDenied), fmt.Sprintf("%s denied (%s)", output.Count(r.Denied, "request"),
					output.Share(r.Denied, r.Requests))))
		case r.Latency == nil:
			fast.Answers = append(fast.Answers, answer(finding{text: "no latency was measured"}, "-", ""))
		default:
			fast.Answers = append(fast.Answers,
				answer(finding{text: "p99 latency, p50 " + output.Micros(r.Latency.P50)}, output.Micros(r.Latency.P99),
					fmt.Sprintf("p99.9 %s, max %s; %s answered", output.Micros(r.Latency.P999), output.Micros(r.Latency.Max),
						output.PerSecond(r.ThroughputPerS))))
		}
		if parts := costTerms(r); len(parts) > 0 {
			cost.Answers = append(cost.Answers, answer(finding{text: parts[0].of}, parts[0].figure, joinCost(parts[1:])))
		}
	}
	p.Cards = []card{right, fast}
	if len(cost.Answers) > 0 {
		p.Cards = append(p.Cards, cost)
	}
	for _, t := range missedFirst(d) {
		found := findingOfThreshold(&t).onPage("")
		actual := t.Actual
		switch {
		case t.NotJudged != "":
			p.NotJudged++
			actual += ", not judged, because " + t.NotJudged
		case !t.OK:
			p.Missed++
		}
		p.Thresholds = append(p.Thresholds, pageThreshold{found.Class, found.Mark, Name(t.Expression), Name(actual), titles[t.Run]})
	}
}

func (p *page) worstWindows(d *report.Document, titles []string) {
	top := 1.0
	for i := range d.Runs {
		top = math.Max(top, d.Runs[i].Audit.WorstRatio)
	}
	top *= 1.1
	p.WorstLine = rounded(100 / top)
	for i := range d.Runs {
		a := &d.Runs[i].Audit
		if d.Runs[i].Requests == 0 {
			continue
		}
		b := bar{Run: titles[i], Text: output.Ratio(a.WorstRatio), Width: rounded(100 * math.Max(a.WorstRatio, 0) / top),
			Class: "good"}
		switch {
		case a.WorstRatio > 1 && a.OverAdmitted > 0:
			b.Class = "bad"
		case a.WorstRatio > 1:
			b.Class = "over"
		}
		p.Worst = append(p.Worst, b)
	}
}

// requests fills in the table of what became of the requests, of the outcomes that any run has.
func (p *page) requests(d *report.Document, titles []string) {
	p.Requests.Header = append([]string{""}, titles...)
	add := func(name string, always, share bool, of func(*report.Run) int64) {
		row, any := []pageCell{{Text: Name(name)}}, always
		for i := range d.Runs {
			r := &d.Runs[i]
			n := of(r)
			any = any || n > 0
			text := output.Thousands(n)
			if share && n > 0 {
				text += " (" + output.Share(n, r.Planned()) + ")"
			}
			row = append(row, pageCell{Text: text, Right: true})
		}
		if any {
			p.Requests.Rows = append(p.Requests.Rows, row)
		}
	}
	add("Requests", true, false, func(r *report.Run) int64 { return r.Planned() })
	add("Allowed", true, true, func(r *report.Run) int64 { return r.Allowed })
	add("Denied", true, true, func(r *report.Run) int64 { return r.Denied })
	add("Failed", d.Kind == report.LoadTest, true, func(r *report.Run) int64 { return r.Errors })
	add("Failed: timed out", false, true, func(r *report.Run) int64 { return r.TimedOut })
	add("Dropped before they were sent", false, true, func(r *report.Run) int64 { return r.Dropped })
	// Their counts have the warm-up, too.
	statuses := map[string]bool{}
	for i := range d.Runs {
		for status := range d.Runs[i].Statuses {
			statuses[status] = true
		}
	}
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		add("Answers "+statusInWords(status), false, false, func(r *report.Run) int64 { return r.Statuses[status] })
	}
}

// cost fills in the table of costs, of the figures that any run has.
func (p *page) cost(d *report.Document, titles []string) {
	p.Cost.Header = append([]string{""}, titles...)
	for _, cost := range report.Costs {
		row, any := []pageCell{{Text: cost.Title}}, false
		for i := range d.Runs {
			var figure *float64
			if d.Runs[i].Cost != nil {
				figure = cost.Of(d.Runs[i].Cost)
			}
			any = any || figure != nil
			row = append(row, pageCell{Text: known(figure), Right: true})
		}
		if any {
			p.Cost.Rows = append(p.Cost.Rows, row)
		}
	}
}
