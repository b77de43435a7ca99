package api

import (
	"net/http"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/serve/refusal"
)

// policyList is the answer to GET /v1/policies.
type policyList struct {
	SchemaVersion int               `json:"schema_version"`
	Policies      []describedPolicy `json:"policies"`
}

type describedPolicy struct {
	Name string `json:"name"`
	// Attributes are those that a request needs. Optional ones only select an override.
	Attributes []string `json:"attributes"`
	Optional   []string `json:"optional_attributes,omitempty"` // those that only select an override
	// Costs are the names that a request needs in costs.
	Costs   []string         `json:"costs,omitempty"`
	OnError string           `json:"on_error"`
	Limits  []describedLimit `json:"limits"`
}

type describedLimit struct {
	Name   string   `json:"name"`
	By     []string `json:"by"`
	Limit  string   `json:"limit"`
	Cost   string   `json:"cost,omitempty"`
	Shadow bool     `json:"shadow,omitempty"`
	Warn   string   `json:"warn,omitempty"`
	// Classes say what each class of callers leaves to others.
	Classes string `json:"classes,omitempty"`
}

// policies lists the policies in force.
func (d *listener) policies(w http.ResponseWriter, r *http.Request) {
	if !isGet(w, r) {
		return
	}
	list := policyList{SchemaVersion: output.SchemaVersion, Policies: []describedPolicy{}}
	for _, p := range d.engine.Settings().Policies {
		described := describedPolicy{Name: p.Name, Attributes: []string{}, Costs: p.CostFields(), OnError: p.OnError.String()}
		names, needed := p.Attributes()
		for _, name := range names {
			if needed[name] {
				described.Attributes = append(described.Attributes, name)
			} else {
				described.Optional = append(described.Optional, name)
			}
		}
		for i := range p.Limits {
			l := &p.Limits[i]
			limit := describedLimit{Name: l.Name, By: l.By, Limit: l.Stored().String(), Cost: l.Cost.String(), Shadow: l.Shadow,
				Classes: l.Classes.String()}
			if l.Warn != 0 {
				limit.Warn = l.Warn.String()
			}
			described.Limits = append(described.Limits, limit)
		}
		list.Policies = append(list.Policies, described)
	}
	refusal.WriteJSON(w, http.StatusOK, list)
}
