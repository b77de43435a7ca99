package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DenyPolicy is the name under which descriptors that are always denied are counted. No configuration has such a name.
const DenyPolicy = "(deny)"

// deniers returns a policy for each descriptor that is always denied, so that its denials have a policy, a limit and a key like
// others. The limit has the name of the descriptor, else its domain and entries, and is by all of its entries.
func deniers(domains configfile.EnvoyDomains) map[*configfile.EnvoyDescriptor]*policy.Policy {
	found := map[*configfile.EnvoyDescriptor]*policy.Policy{}
	for domain, descriptors := range domains {
		for i := range descriptors {
			d := &descriptors[i]
			if !d.Deny {
				continue
			}
			limit, words := policy.Limit{Limit: limiter.Limit{Name: d.Name}}, []string{domain}
			for j := range d.Entries {
				words = append(words, d.Entries[j].String())
				by := subjecttext.Escape(d.Entries[j].Key)
				for n, base := 2, by; slices.Contains(limit.By, by); n++ { // ordered entries can share a key
					by = fmt.Sprint(base, "_", n)
				}
				limit.By = append(limit.By, by)
			}
			if limit.Name == "" {
				limit.Name = strings.Join(words, "/")
			}
			limit.Name = subjecttext.Escape(strings.ToValidUTF8(limit.Name, "?"))
			found[d] = &policy.Policy{Name: DenyPolicy, Limits: []policy.Limit{limit}}
		}
	}
	return found
}

// Denier returns the policy that stands for a descriptor of these settings that is always denied; nil for any other, and before
// the settings are in force.
func (s *Settings) Denier(d *configfile.EnvoyDescriptor) *policy.Policy { return s.deniers[d] }

// Deniers returns the policies that [Settings.Denier] returns.
func (s *Settings) Deniers() []*policy.Policy { return slices.Collect(maps.Values(s.deniers)) }

// Refuse notes that a listener denied an ask without a decision, because no usage would allow it. It is told and counted like a
// decision: denies says which limits of p denied, and the others were not asked. Nothing is charged.
func (e *Engine) Refuse(ask *Ask, p *policy.Policy, denies func(*policy.Limit) bool) {
	answer := decision.Answer{Policy: p, Key: ask.Key, Requests: make([]store.Request, len(p.Limits)),
		Decisions: make([]store.Decision, len(p.Limits))}
	for i := range p.Limits {
		l := &p.Limits[i]
		answer.Overrides = append(answer.Overrides, -1)
		answer.Requests[i] = store.Request{Key: p.Key(l, ask.Attributes), Limit: l.Stored(), Shadow: l.Shadow, Cost: ask.Cost}
		denied := denies(l)
		answer.Decisions[i] = store.Decision{Shadow: l.Shadow, Allowed: !denied, Unguarded: !denied}
	}
	e.countDenials(ask, answer.Requests, answer.Decisions)
	if e.options.OnDecision != nil {
		e.options.OnDecision(ask, &answer, nil, 0)
	}
}

// countDenials counts denials of a take that no store has denied.
func (e *Engine) countDenials(ask *Ask, requests []store.Request, decisions []store.Decision) {
	if ask.Op != store.Take || e.denials == nil || e.deciding(ask).NoDenials {
		return
	}
	for i := range decisions {
		if d := &decisions[i]; !d.Allowed && !d.Shadow && !d.Unguarded {
			e.denials.Count(requests[i], d)
		}
	}
}
