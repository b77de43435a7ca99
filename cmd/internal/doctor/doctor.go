// Package doctor examines a store as an expert would. What it asks and how it
// judges the answers are kept apart: fetching is in server.go, keys.go, rights.go,
// cluster.go and embedded.go, and the judge… functions turn facts into findings.
package doctor

import (
	"cmp"
	"slices"
	"strings"
)

// Status is how bad a finding is.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // it works, with a risk
	Fail Status = "fail" // it does not work, or is about to fail
)

// Finding is what one check found, each text on one line.
type Finding struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Server  string `json:"server,omitempty"` // where there are several
	Summary string `json:"summary"`
	// Advice is what to do.
	Advice string `json:"advice,omitempty"`
	// Command is one to paste into a shell for that.
	Command string `json:"command,omitempty"`
	// Data has the numbers and names of the summary.
	Data map[string]any `json:"data,omitempty"`
}

// Report is the findings of an examination.
type Report struct {
	Findings []Finding
	// Reached: there was something to examine.
	Reached bool
}

// Count returns how many findings have a status.
func (r *Report) Count(status Status) int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Status == status {
			n++
		}
	}
	return n
}

func (r *Report) add(findings ...Finding) { r.Findings = append(r.Findings, findings...) }

// checks returns the checks in the order in which they are shown: whether it works
// at all, whether it will go on to, and what is in it.
func checks() []string {
	return []string{"reachable", "transport", "sentinel", "version", "role", "replicas", "cluster", "persistence", "memory", "eviction",
		"clock", "settings", "scripts", "rights", "file", "keys", "ttl", "damaged", "foreign", "size", "policies",
		"denials", "overrides", "layouts", "defects", "local", "biggest", "hottest"}
}

// Add adds findings, in the order in which they are shown.
func (r *Report) Add(findings ...Finding) {
	r.add(findings...)
	r.sort()
}

// sort brings the findings into the order of checks, those of several servers side
// by side.
func (r *Report) sort() {
	order := checks()
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Check), slices.Index(order, b.Check))
	})
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
