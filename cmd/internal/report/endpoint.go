package report

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// Endpoint is what is known of a run whose limit somebody else decided.
type Endpoint struct {
	// Subjects is what subjects were called in this run, with a * for what differs, so that
	// they can be found in the endpoint's logs. FirstSubject is one of them.
	Subjects     string `json:"subjects,omitempty"`
	FirstSubject string `json:"first_subject,omitempty"`
	// Connections is about the connections that were opened.
	Connections *Connections `json:"connections,omitempty"`
}

// Connections are those that a run opened.
type Connections struct {
	Opened int64 `json:"opened"`
	// Connect is how long it took to reach the other side, and TLS to agree on encryption
	// after that. No service time has them in it.
	Connect *Quantiles `json:"connect_us,omitempty"`
	TLS     *Quantiles `json:"tls_us,omitempty"`
}

// statusesInWords says how often there was each status.
func (r *Run) statusesInWords() string {
	var parts []string
	for _, status := range r.sortedStatuses() {
		name := status
		if n, err := strconv.Atoi(status); err == nil && http.StatusText(n) != "" {
			name += " " + http.StatusText(n)
		}
		parts = append(parts, fmt.Sprintf("%s × %s", output.Thousands(r.Statuses[status]), name))
	}
	return strings.Join(parts, " · ")
}

// sortedStatuses returns the statuses, the smallest first.
func (r *Run) sortedStatuses() []string {
	var all []string
	for status := range r.Statuses {
		all = append(all, status)
	}
	slices.Sort(all)
	return all
}

// connectionsInWords says how many connections were opened.
func (r *Run) connectionsInWords() string {
	if r.Endpoint == nil || r.Endpoint.Connections == nil {
		return ""
	}
	return plural(r.Endpoint.Connections.Opened, "connection") + " opened"
}

// endpointTimes are how long connections took.
func (r *Run) endpointTimes() []namedTimes {
	if r.Endpoint == nil || r.Endpoint.Connections == nil {
		return nil
	}
	return []namedTimes{{"connect", r.Endpoint.Connections.Connect}, {"TLS", r.Endpoint.Connections.TLS}}
}
