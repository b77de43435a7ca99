// Package doctor examines a store as an expert would: what works, and what to fix. Reading and judging are kept apart: the
// judge… functions turn facts into findings.
package doctor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Status is the severity of a finding.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Unknown Status = "unknown" // nothing shows whether it is fine
	Warn    Status = "warn"    // it works, with a risk
	Fail    Status = "fail"    // it does not work, or is about to fail
)

// Finding is the result of one check. Each text is one line.
type Finding struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`           // ok, unknown, warn or fail
	Server  string `json:"server,omitempty"` // if there are several
	Summary string `json:"summary"`
	// Advice says what to do.
	Advice string `json:"advice,omitempty"`
	// Data has the numbers and names of the summary.
	Data map[string]any `json:"data,omitempty"`
}

// Report has the findings of an examination.
type Report struct {
	Findings []Finding
	// Reached: there was something to examine.
	Reached bool
}

// Count returns the number of findings with a status.
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

// checks returns the checks in the order in which they are shown: whether the store works at all, whether it will go
// on to work, and what is in it.
func checks() []string {
	return []string{"reachable", "transport", "sentinel", "version", "role", "replicas", "cluster", "persistence", "memory", "eviction",
		"clock", "settings", "rights", "file", "keys", "ttl", "damaged", "foreign", "published", "denials", "overrides", "local"}
}

// Add adds findings, in the order in which they are shown.
func (r *Report) Add(findings ...Finding) {
	r.add(findings...)
	r.sort()
}

// sort puts the findings into the order of the checks, those of several servers side by side.
func (r *Report) sort() {
	order := checks()
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Check), slices.Index(order, b.Check))
	})
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Options bound an examination.
type Options struct {
	Prefix string
	// ScanLimit is the most keys of the store that are read; 0 means all.
	ScanLimit int
	Now       func() time.Time
	// Store is the store itself, for its keys, denials and overrides.
	Store store.Store
	// Transport says how the connections are protected.
	Transport redisserver.Transport
	// Sentinels are the answers of the URL's Sentinels; empty for another URL.
	Sentinels []redisserver.SentinelHealth
}

// server is one master, or the only server.
type server struct {
	client *redis.Client
	name   string               // empty if it is the only one
	alone  *redisserver.Servers // this server alone, for its errors
}

// examination is the examination of a Redis.
type examination struct {
	Options
	client  redis.UniversalClient
	servers *redisserver.Servers
	report  Report
	// unreached: a server did not answer.
	unreached bool
}

func (e *examination) add(s *server, findings ...Finding) {
	for i := range findings {
		findings[i].Server = s.name
	}
	e.report.add(findings...)
}

// cannotLook adds the finding that the server does not allow what a check needs. s is nil for a check of all servers
// together.
func (e *examination) cannotLook(s *server, check, command string, err error) {
	f := Finding{Check: check, Status: Warn, Data: map[string]any{"command": command}}
	if s != nil {
		f.Server = s.name
	}
	if redisserver.LacksRight(err) {
		f.Summary = "cannot be checked: the user lacks the right to " + strings.ToUpper(strings.ReplaceAll(command, "|", " "))
		f.Advice = shell.SetUser(redisserver.User(e.client), "+"+command)
		if readVerdict(err.Error()) == keyDenied {
			f.Summary = "cannot be checked: the user lacks the right to the keys under the prefix " + e.Prefix
			f.Advice = shell.SetUser(redisserver.User(e.client), redisserver.KeyRule(e.Prefix, false))
		}
	} else {
		f.Summary = "cannot be checked: " + strings.ToUpper(strings.ReplaceAll(command, "|", " ")) + " fails: " +
			oneLine(e.servers.Explain(err))
		f.Advice = "ask the server's operator; some services do not offer it"
	}
	e.report.add(f)
}
