package setup

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/published"
)

// answer is the answer of publish and rollback.
type answer struct {
	place        string
	of           int64
	dryRun, same bool
	before, next int64              // the version in force, 0 for none, and the one of a dry run
	unreadable   bool               // the one before
	version      *published.Version // that was published, nil for none
	limits       diffAnswer
	keys         *diffAnswer // nil if they were not looked at
	shown        bool        // all but the version is on stderr already
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
	// Did is publish or rollback.
	Did         string     `json:"did"`
	At          *time.Time `json:"at,omitempty"`
	By          string     `json:"by,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	Differences []any      `json:"differences"`
	// Keys are the keys in use whose limit changes; null if they were not looked at.
	Keys []any `json:"keys"`
}

// Document implements output.Answer.
func (a *answer) Document() any {
	d := document{SchemaVersion: output.SchemaVersion, Version: a.next, Before: a.before, DryRun: a.dryRun, Of: a.of,
		Differences: a.limits.Lines(), Did: "publish"}
	if a.of != 0 {
		d.Did = "rollback"
	}
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
	return d
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
	if a.version == nil {
		p.Line("would publish version %d in %s (dry run)", a.next, output.Printable(a.place))
		return
	}
	of := ""
	if a.of != 0 {
		of = fmt.Sprintf(", with the text of version %d", a.of)
	}
	p.Line("%s version %d in %s%s", p.Paint(output.Calm, "✓ published"), a.version.Number, output.Printable(a.place), of)
}

// show prints what changes.
func (a *answer) show(p *output.Printer) {
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
}
