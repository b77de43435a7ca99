package publish

import (
	"time"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// answer is the answer of publish and rollback.
type answer struct {
	place        string
	of           int64
	dryRun, same bool
	before, next int64              // the version in force, 0 for none, and the one of a dry run
	version      *published.Version // that was published, nil for none
	limits       diffAnswer
	keys         *diffAnswer // nil if they were not looked at
	traffic      []traffic
	shown        bool // all but the version is on stderr already
	// plan says how the version is tried, nil for none; did is didPromote, didWithdraw or empty.
	plan *published.Canary
	did  string
	// ends is the version that was tried before, 0 for none.
	ends int64
	// apart are the limits that count apart while the version is tried, and later what changes only when it is promoted.
	apart, later []string
}

// document is the answer in JSON.
type document struct {
	SchemaVersion int `json:"schema_version"`
	// Version is the version in force afterwards; of a dry run the one that there would be.
	Version   int64  `json:"version"`
	Hash      string `json:"hash,omitempty"`
	Before    int64  `json:"before"` // the version in force before, 0 for none
	Published bool   `json:"published"`
	DryRun    bool   `json:"dry_run"`
	Of        int64  `json:"of,omitempty"` // the version that was brought back
	// Did is publish, rollback, shadow, canary, promote or withdraw.
	Did string `json:"did"`
	// Next is the version that is tried, with Percent and By or as a shadow, and when that ends.
	Next      int64      `json:"next,omitempty"`
	Percent   float64    `json:"percent,omitempty"`
	Attribute string     `json:"by_attribute,omitempty"`
	Until     *time.Time `json:"until,omitempty"`
	// Apart are limits that count under names of their own while the version is tried.
	Apart       []string   `json:"apart,omitempty"`
	At          *time.Time `json:"at,omitempty"`
	By          string     `json:"by,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	Differences []any      `json:"differences"`
	// Keys are the keys in use whose limit changes; null if they were not looked at.
	Keys    []any     `json:"keys"`
	Traffic []traffic `json:"traffic,omitempty"` // what recorded traffic would have got, by policy
}

// Document implements output.Answer.
func (a *answer) Document() any {
	d := document{SchemaVersion: output.SchemaVersion, Version: a.next, Before: a.before, DryRun: a.dryRun, Of: a.of,
		Differences: a.limits.Lines(), Traffic: a.traffic, Did: a.kind(), Apart: a.apart}
	if a.same {
		d.Version = a.before
	}
	if v := a.version; v != nil {
		at := output.UTC(v.At)
		d.Version, d.Hash, d.Published, d.At, d.By, d.Reason = v.Number, v.Hash, true, &at, v.By, v.Reason
	}
	if a.keys != nil {
		d.Keys = a.keys.Lines()
	}
	switch {
	case a.plan != nil && !a.same:
		d.Version, d.Next, d.Percent, d.Attribute = a.before, a.next, float64(a.plan.Share)/100, a.plan.By
		if a.plan.Until > 0 {
			until := a.plan.Until.Time()
			d.Until = &until
		}
	case a.did == didWithdraw:
		d.Version = a.before
	}
	return d
}

// kind is what was done, as the history says it.
func (a *answer) kind() string {
	switch {
	case a.did != "":
		return a.did
	case a.plan != nil && a.plan.Share == 0:
		return didShadow
	case a.plan != nil:
		return didCanary
	case a.of != 0:
		return "rollback"
	}
	return "publish"
}

// Records implements output.Answer: the differences of limits, which the columns of config diff hold.
func (a *answer) Records() [][]string { return a.limits.Records() }

// Print implements output.Answer.
func (a *answer) Print(p *output.Printer) {
	if a.same {
		p.Line("version %d, which is in force in %s, has the same text; nothing was published", a.before, output.Printable(a.place))
		return
	}
	if !a.shown {
		a.show(p)
	}
	done := func(what string) string {
		if a.dryRun {
			return "would be " + what
		}
		return p.Paint(output.Calm, "✓ "+what)
	}
	place := output.Printable(a.place)
	switch {
	case a.plan != nil:
		until := ""
		if a.plan.Until > 0 {
			until = " until " + a.plan.Until.Time().Format(time.RFC3339)
		}
		p.Line("version %d %s beside version %d in %s, %s%s%s", a.next, done("tried"), a.before, place, tries(a.plan), until, dry(a.dryRun))
	case a.did == didPromote:
		p.Line("version %d %s in %s%s", a.next, done("promoted"), place, dry(a.dryRun))
	case a.did == didWithdraw:
		p.Line("version %d %s in %s, and version %d is alone in force%s", a.next, done("withdrawn"), place, a.before, dry(a.dryRun))
	case a.version == nil:
		p.Line("would publish version %d in %s (dry run)", a.next, output.Printable(a.place))
	case a.of != 0:
		p.Line("%s version %d in %s, with the text of version %d", p.Paint(output.Calm, "✓ published"), a.version.Number,
			output.Printable(a.place), a.of)
	default:
		p.Line("%s version %d in %s", p.Paint(output.Calm, "✓ published"), a.version.Number, output.Printable(a.place))
	}
}

// dry marks the line of a dry run.
func dry(run bool) string {
	if run {
		return " (dry run)"
	}
	return ""
}

// show prints what changes.
func (a *answer) show(p *output.Printer) {
	if a.did == didWithdraw {
		return
	}
	defer a.showTrial(p)
	if len(a.limits.rows) == 0 {
		p.Line("no limit changes")
	}
	a.limits.Print(p)
	if a.keys != nil {
		if len(a.keys.rows) == 0 {
			p.Line("no key in use changes its limit")
		} else {
			p.Line("keys in use:")
		}
		a.keys.Print(p)
	}
	printTraffic(p, a.traffic)
}

// showTrial prints what is to be known about the trial of a version.
func (a *answer) showTrial(p *output.Printer) {
	switch {
	case a.plan != nil && len(a.apart) > 0:
		p.Line("counted apart, as NAME%s, because the attributes, the algorithm or the period differ: %s; promote does not take that over",
			store.NextSuffix, output.Printable(someOf(a.apart)))
	case a.did == didPromote && len(a.apart) > 0:
		p.Line("what was counted as NAME%s is not taken over: %s", store.NextSuffix, output.Printable(someOf(a.apart)))
	}
	if len(a.later) > 0 {
		p.Line("not tried, and changed only by promote: %s", output.Printable(someOf(a.later)))
	}
	if a.ends != 0 && a.did == "" && a.ends != a.next {
		p.Line("version %d is no longer tried then", a.ends)
	}
}

// traffic is what recorded traffic would have got under a policy.
type traffic struct {
	Policy   string `json:"policy"`
	Requests int64  `json:"requests"`
	// DeniedBefore and DeniedAfter are how many would have been denied; null without the policy.
	DeniedBefore *int64 `json:"denied_before"`
	DeniedAfter  *int64 `json:"denied_after"` // how many the new version would have denied; null without the policy
	// LeftOut counts the lines of the log that lack an attribute of the policy, or cannot be read.
	LeftOut int64 `json:"left_out,omitempty"`
	// Error says why the log was not tried under the policy, such as that it lacks a field.
	Error string `json:"error,omitempty"`
}

func printTraffic(p *output.Printer, all []traffic) {
	if len(all) == 0 {
		return
	}
	p.Line("recorded traffic:")
	cell := func(denied *int64) output.Cell {
		if denied == nil {
			return output.Cell{Text: "-"}
		}
		return output.Cell{Text: cli.Number(*denied)}
	}
	var rows [][]output.Cell
	for _, t := range all {
		rows = append(rows, []output.Cell{{Text: t.Policy}, {Text: cli.Number(t.Requests)}, cell(t.DeniedBefore), cell(t.DeniedAfter)})
	}
	p.Table([]output.Column{{Header: "POLICY"}, {Header: "REQUESTS", Right: true}, {Header: "DENIED BEFORE", Right: true},
		{Header: "DENIED AFTER", Right: true}}, rows)
	for _, t := range all {
		if t.Error != "" {
			p.Line("%s was not tried: %s", output.Printable(t.Policy), output.Printable(t.Error))
		}
	}
}
